"""A client for Manilla's merchant API: synchronous and asynchronous, without dependencies.

It is published as a separate package, so it imports nothing from the platform.
"""

from typing import TYPE_CHECKING, Any

from manilla_client.answers import (
    AcceptedResend,
    Bank,
    BankList,
    Commission,
    CompletedPayment,
    CreatedPaymentLink,
    Customer,
    DeletedEndpoint,
    DeliveredPayout,
    EndpointSecret,
    EndpointTest,
    Event,
    EventPage,
    MethodField,
    PaymentInfo,
    PaymentLink,
    PaymentLinkPage,
    PaymentSession,
    Payout,
    PayoutInfo,
    PayoutMethod,
    PayoutMethods,
    SiteInfo,
    UndeliveredPayout,
    UnfinishedPayment,
    WebhookEndpoint,
    WebhookEndpointPage,
)
from manilla_client.calls import PaymentLinkOrder, PaymentOrder, PayoutOrder
from manilla_client.credentials import Credentials
from manilla_client.errors import (
    ApiError,
    BadAnswer,
    BadNotification,
    DuplicateReference,
    GatewayNotConfigured,
    GatewayPayoutFailed,
    InsufficientBalance,
    InsufficientPermission,
    InvalidAmount,
    InvalidBeneficiary,
    InvalidCredentials,
    InvalidCurrency,
    InvalidEnvironment,
    KycRequired,
    ManillaError,
    MerchantPendingApproval,
    MerchantSuspended,
    NoAnswer,
    NotificationTooOld,
    PaymentLinkNotFound,
    PayoutDisabled,
    PayoutFailed,
    PayoutRefused,
    ProviderInsufficientBalance,
    RateLimited,
    ScheduleBlocked,
    ServerError,
    ServiceUnavailable,
    SignatureMismatch,
    StillPending,
    TooManyWebhookEndpoints,
    TransactionNotFound,
    ValidationFailed,
    WalletNotAvailable,
    WebhookEndpointDisabled,
    WebhookEndpointNotFound,
)
from manilla_client.notifications import Notification, sign_ipn, verify_ipn
from manilla_client.retries import Retries
from manilla_client.synchronous import Client

if TYPE_CHECKING:
    from manilla_client.asynchronous import AsyncClient

__version__ = "0.5.0"  # the same version as the platform

__all__ = [
    "AcceptedResend",
    "ApiError",
    "AsyncClient",
    "BadAnswer",
    "BadNotification",
    "Bank",
    "BankList",
    "Client",
    "Commission",
    "CompletedPayment",
    "CreatedPaymentLink",
    "Credentials",
    "Customer",
    "DeletedEndpoint",
    "DeliveredPayout",
    "DuplicateReference",
    "EndpointSecret",
    "EndpointTest",
    "Event",
    "EventPage",
    "GatewayNotConfigured",
    "GatewayPayoutFailed",
    "InsufficientBalance",
    "InsufficientPermission",
    "InvalidAmount",
    "InvalidBeneficiary",
    "InvalidCredentials",
    "InvalidCurrency",
    "InvalidEnvironment",
    "KycRequired",
    "ManillaError",
    "MerchantPendingApproval",
    "MerchantSuspended",
    "MethodField",
    "NoAnswer",
    "Notification",
    "NotificationTooOld",
    "PaymentInfo",
    "PaymentLink",
    "PaymentLinkNotFound",
    "PaymentLinkOrder",
    "PaymentLinkPage",
    "PaymentOrder",
    "PaymentSession",
    "Payout",
    "PayoutDisabled",
    "PayoutFailed",
    "PayoutInfo",
    "PayoutMethod",
    "PayoutMethods",
    "PayoutOrder",
    "PayoutRefused",
    "ProviderInsufficientBalance",
    "RateLimited",
    "Retries",
    "ScheduleBlocked",
    "ServerError",
    "ServiceUnavailable",
    "SignatureMismatch",
    "SiteInfo",
    "StillPending",
    "TooManyWebhookEndpoints",
    "TransactionNotFound",
    "UndeliveredPayout",
    "UnfinishedPayment",
    "ValidationFailed",
    "WalletNotAvailable",
    "WebhookEndpoint",
    "WebhookEndpointDisabled",
    "WebhookEndpointNotFound",
    "WebhookEndpointPage",
    "sign_ipn",
    "verify_ipn",
]


def __getattr__(name: str) -> Any:
    """Imports AsyncClient at its first use: loading asyncio takes longer than everything else."""
    if name != "AsyncClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from manilla_client.asynchronous import AsyncClient

    return AsyncClient
