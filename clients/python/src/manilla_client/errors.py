"""Defines an exception class for each API error code, and for errors without a code."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar


class ManillaError(Exception):
    """Base class of every exception that this library raises.

    If `outcome_unknown` is True, a request with this `idempotency_key` may have taken effect. Call
    the method again with the same arguments and the same idempotency key.
    """

    def __init__(
        self, message: str, *, outcome_unknown: bool = False, idempotency_key: str | None = None
    ) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown
        self.idempotency_key = idempotency_key


class NoAnswer(ManillaError):
    """There was no readable response after all attempts."""


class BadAnswer(ManillaError):
    """The response does not match the API's specification."""


class StillPending(ManillaError):
    """The timeout was reached before the transaction had a final status."""

    def __init__(self, trx_id: str) -> None:
        super().__init__(f"{trx_id} is still pending.")
        self.trx_id = trx_id


class BadNotification(ManillaError):
    """The request is not a notification from Manilla. Respond with 401 and ignore it."""


class SignatureMismatch(BadNotification):
    """The signature is missing, or was computed from another body or with another secret."""


class NotificationTooOld(BadNotification):
    """The signature is valid but too old. An attacker may be replaying a recorded notification."""


class ApiError(ManillaError):
    """The API rejected the request. This class is used for error codes without a separate class."""

    codes: ClassVar[tuple[str, ...]] = ()
    advice: ClassVar[str | None] = None

    def __init__(
        self,
        status: int,
        document: Mapping[str, Any],
        *,
        request_id: str | None = None,
        retry_after_seconds: int | None = None,
        location: str | None = None,
        outcome_unknown: bool = False,
        idempotency_key: str | None = None,
    ) -> None:
        self.status = status
        self.code: str | None = _text(document.get("error_code"))
        self.message = _text(document.get("error")) or _without_text(status, location)
        self.errors = _texts(document.get("errors"))
        self.guidance: str | None = _text(document.get("guidance")) or self.advice
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds
        super().__init__(
            self.message, outcome_unknown=outcome_unknown, idempotency_key=idempotency_key
        )

    def __str__(self) -> str:
        faults = "".join(f" {name}: {fault}" for name, fault in self.errors.items())
        facts = f"{self.status} {self.code or 'without a code'}"
        if self.request_id:
            facts += f", request {self.request_id}"
        return f"{self.message}{faults} ({facts})"


class ValidationFailed(ApiError):
    codes = ("VALIDATION_FAILED",)
    advice = "Correct the fields in `errors`."


class InvalidAmount(ValidationFailed):
    codes = ("INVALID_AMOUNT",)
    advice = "Send an amount within the limits, with no more decimals than the currency has."


class InvalidEnvironment(ValidationFailed):
    codes = ("INVALID_ENVIRONMENT",)


class InvalidCredentials(ApiError):
    codes = ("INVALID_CREDENTIALS",)
    advice = (
        "Check that the three credentials belong together and to this environment, and that "
        "this machine's clock is right. `errors` names the invalid header, if there is one."
    )


class MerchantPendingApproval(ApiError):
    codes = ("MERCHANT_PENDING_APPROVAL",)
    advice = "Use the sandbox until an administrator has approved the account."


class MerchantSuspended(ApiError):
    codes = ("MERCHANT_SUSPENDED",)
    advice = "Contact the platform's support."


class InsufficientPermission(ApiError):
    codes = ("INSUFFICIENT_PERMISSION",)
    advice = "Use an API key with the right that the message names."


class TransactionNotFound(ApiError):
    codes = ("TRANSACTION_NOT_FOUND",)
    advice = "Use the credentials and environment with which the transaction was created."


class PaymentLinkNotFound(ApiError):
    codes = ("PAYMENT_LINK_NOT_FOUND",)
    advice = "Use the credentials and environment with which the payment link was created."


class InvoiceNotFound(ApiError):
    codes = ("INVOICE_NOT_FOUND",)
    advice = "List your invoices. The sandbox has none."


class PaymentLinkUsed(ApiError):
    codes = ("PAYMENT_LINK_USED",)
    advice = "Create another payment link."


class PaymentAlreadyPaid(ApiError):
    codes = ("PAYMENT_ALREADY_PAID",)
    advice = "Fulfill the order, or refund the payment. Do not let the customer pay again."


class WebhookEndpointNotFound(ApiError):
    codes = ("WEBHOOK_ENDPOINT_NOT_FOUND",)
    advice = "Use the credentials and environment with which the endpoint was created."


class TooManyWebhookEndpoints(ApiError):
    codes = ("TOO_MANY_WEBHOOK_ENDPOINTS",)
    advice = "Delete an endpoint that you no longer use."


class WebhookEndpointDisabled(ApiError):
    codes = ("WEBHOOK_ENDPOINT_DISABLED",)
    advice = "Enable the endpoint first."


class InvalidCurrency(ApiError):
    codes = ("INVALID_CURRENCY",)
    advice = "Use a currency that is enabled for your account."


class WalletNotAvailable(ApiError):
    codes = ("WALLET_NOT_AVAILABLE",)
    advice = "Ask the operator to open a wallet in this currency for your account."


class DuplicateReference(ApiError):
    """The reference or the idempotency key has already been used.

    For a reference, `trx_id` and `trx_status` describe the first transaction. `payment_url` is its
    link, if it is a payment that can still be paid and has the same amount. `duplicate_of` is
    `ref_trx` or `idempotency_key`.
    """

    codes = ("DUPLICATE_REFERENCE",)
    advice = "Verify the first transaction before you send another with a new reference."

    def __init__(self, status: int, document: Mapping[str, Any], **facts: Any) -> None:
        super().__init__(status, document, **facts)
        self.trx_id: str | None = _text(document.get("trx_id"))
        self.trx_status: str | None = _text(document.get("status"))
        self.duplicate_of: str | None = _text(document.get("duplicate_of"))
        self.payment_url: str | None = _text(document.get("payment_url"))


class RateLimited(ApiError):
    codes = ("RATE_LIMIT_EXCEEDED",)
    advice = "Wait for `retry_after_seconds`, and then call less often."


class ServiceUnavailable(ApiError):
    codes = ("SERVICE_UNAVAILABLE",)
    advice = "Try again, with the same idempotency key."


class ServerError(ApiError):
    codes = ("SERVER_ERROR",)
    advice = "Try again with the same idempotency key, and send the request id to the operator."


class RefundFailed(ApiError):
    """The API rejected a refund. No wallet is debited, unless the outcome is unknown."""

    codes = ("refund_failed",)
    advice = "Check the payment's status and its remaining amount."


class SplitInvalid(ApiError):
    codes = ("split_invalid",)
    advice = "Correct each field that `errors` names. Nothing was created."


class BadDocument(ApiError):
    codes = ("BAD_DOCUMENT",)
    advice = "Send a complete PDF, PNG or JPEG file of at most 5 MB."


class DocumentNotFound(ApiError):
    codes = ("DOCUMENT_NOT_FOUND",)
    advice = "Get the dispute: it lists its files."


class DisputeRefused(ApiError):
    """The API rejected the answer to a dispute. Nothing was sent to the provider."""


class DisputeClosed(DisputeRefused):
    codes = ("dispute_closed",)
    advice = "Get the dispute: its status shows what has happened."


class DisputeDeadlinePassed(DisputeRefused):
    codes = ("dispute_deadline_passed",)
    advice = "Wait for the provider's decision, or contact the platform's support."


class EvidenceIncomplete(DisputeRefused):
    codes = ("evidence_incomplete",)
    advice = "Add what `errors` names, and submit again."


class EvidenceRejected(DisputeRefused):
    codes = ("evidence_rejected",)
    advice = "Change the evidence, and submit again."


class CustomerRefused(ApiError):
    """The API did not change a customer, or request an account number."""


class CustomerNotFound(CustomerRefused):
    codes = ("CUSTOMER_NOT_FOUND",)
    advice = "Check the reference and the environment."


class CustomerDisabled(CustomerRefused):
    codes = ("customer_disabled",)
    advice = "Enable the customer. If the personal data was erased, create another customer."


class AccountNotFound(CustomerRefused):
    codes = ("ACCOUNT_NOT_FOUND",)
    advice = "List the customer's accounts in this environment."


class NoAccountMethod(CustomerRefused):
    codes = ("no_account_method",)
    advice = "Omit `method_codes`, or ask the platform's support to enable a method with accounts."


class TooManyAccounts(CustomerRefused):
    codes = ("too_many_accounts",)
    advice = "Close an account of the customer first."


class HeldForReview(CustomerRefused):
    codes = ("HELD_FOR_REVIEW",)
    advice = "Nothing was credited. In production, an administrator decides about such a transfer."


class PaymentOfOtherCustomer(CustomerRefused):
    codes = ("payment_of_other_customer",)
    advice = "Do not attach this payment: it belongs to another customer."


class ChargeRefused(ApiError):
    """The API did not charge a saved way to pay."""


class WayNotFound(ChargeRefused):
    codes = ("WAY_NOT_FOUND",)
    advice = "List the customer's ways in this environment."


class WayUnusable(ChargeRefused):
    codes = ("way_unusable",)
    advice = "Ask the customer to pay on checkout, with `save_for`."


class RetryLimit(ChargeRefused):
    codes = ("retry_limit",)
    advice = "Charge it again later, or ask the customer to pay on checkout."


class PayoutRefused(ApiError):
    """The API rejected a payout. No wallet is debited, unless the outcome is unknown."""


class InsufficientBalance(PayoutRefused):
    """The wallet's balance is too low.

    This error also occurs for a refund, and for a payment whose commission exceeds your balance.
    """

    codes = ("insufficient_balance",)
    advice = "Fund the wallet, or send less."


class ProviderInsufficientBalance(PayoutRefused):
    codes = ("provider_insufficient_balance",)
    advice = "Try again later, or choose another method."


class KycRequired(PayoutRefused):
    codes = ("kyc_required",)
    advice = "Complete the KYC and phone verification of the account."


class PayoutDisabled(PayoutRefused):
    codes = ("merchant_payout_disabled",)
    advice = "Contact the platform's support."


class ScheduleBlocked(PayoutRefused):
    codes = ("payout_schedule_blocked",)
    advice = "Try again on a day on which payouts are accepted."


class GatewayNotConfigured(PayoutRefused):
    codes = ("gateway_not_configured",)
    advice = "Choose another method."


class InvalidBeneficiary(PayoutRefused):
    codes = ("invalid_beneficiary",)
    advice = "Check the account number, and the bank code against the method's own bank list."


class GatewayPayoutFailed(PayoutRefused):
    codes = ("gateway_payout_failed",)
    advice = "Try another method with a new reference."


class PayoutFailed(PayoutRefused):
    codes = ("payout_failed",)
    advice = "See the message for what to do."


def refusal_class(status: int, code: str | None) -> type[ApiError]:
    """Finds the exception class by error code, or by HTTP status if there is no error code."""
    if code is None:
        return _BY_STATUS.get(status, ApiError)
    return _BY_CODE.get(code, ApiError)


def _below(kind: type[ApiError]) -> Iterator[type[ApiError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _without_text(status: int, location: str | None) -> str:
    redirect = f" The client does not follow the redirect to {location}." if location else ""
    return f"The API responded with status {status}.{redirect}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name): str(fault) for name, fault in value.items()}


_BY_CODE = {code: kind for kind in _below(ApiError) for code in kind.codes}
_BY_STATUS = {
    401: InvalidCredentials,
    429: RateLimited,
    500: ServerError,
    502: ServiceUnavailable,
    503: ServiceUnavailable,
    504: ServiceUnavailable,
}
