"""The errors with which a payout can be rejected. Each message tells the caller what to do next."""

from enum import StrEnum

from manilla.kit.errors import Refusal

PROVIDER_RETRY_SECONDS = 10


class PayoutErrorCode(StrEnum):
    """The reason why a payout was rejected or failed."""

    INSUFFICIENT_BALANCE = "insufficient_balance"
    PROVIDER_INSUFFICIENT_BALANCE = "provider_insufficient_balance"
    KYC_REQUIRED = "kyc_required"
    MERCHANT_PAYOUT_DISABLED = "merchant_payout_disabled"
    PAYOUT_SCHEDULE_BLOCKED = "payout_schedule_blocked"
    GATEWAY_NOT_CONFIGURED = "gateway_not_configured"
    INVALID_BENEFICIARY = "invalid_beneficiary"
    GATEWAY_PAYOUT_FAILED = "gateway_payout_failed"
    PAYOUT_FAILED = "payout_failed"


class InsufficientBalance(Refusal):
    code = PayoutErrorCode.INSUFFICIENT_BALANCE
    message = "The wallet cannot cover the payout and its fee."


class ProviderInsufficientBalance(Refusal):
    code = PayoutErrorCode.PROVIDER_INSUFFICIENT_BALANCE
    message = (
        "The provider's wallet cannot cover this payout now. Nothing was debited: try again later, "
        "or choose another method."
    )


class KycRequired(Refusal):
    code = PayoutErrorCode.KYC_REQUIRED
    message = "Complete the KYC and phone verification of your account to make payouts."


class PayoutDisabled(Refusal):
    code = PayoutErrorCode.MERCHANT_PAYOUT_DISABLED
    message = "Withdrawals are switched off. Please contact support."


class ScheduleBlocked(Refusal):
    code = PayoutErrorCode.PAYOUT_SCHEDULE_BLOCKED
    message = "Payouts are not accepted today."


class GatewayNotConfigured(Refusal):
    code = PayoutErrorCode.GATEWAY_NOT_CONFIGURED
    message = "The credentials of this method's provider are not configured. Choose another method."


class GatewaySwitchedOff(GatewayNotConfigured):
    message = "Payouts are switched off for this method's provider. Choose another method."


class ProviderUnavailable(Refusal):
    """The provider is temporarily unavailable.

    Unlike `Unavailable`, this error means that certainly nothing was written.
    """

    status, code = 503, "SERVICE_UNAVAILABLE"
    message = (
        "This method's provider is not responding right now. Nothing was debited: try again "
        "later, or choose another method."
    )

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, retry_after_seconds=PROVIDER_RETRY_SECONDS)


class ProviderBusy(ProviderUnavailable):
    """A provider that could send the payout has too many calls in progress."""


class InvalidBeneficiary(Refusal):
    code = PayoutErrorCode.INVALID_BENEFICIARY
    message = "The beneficiary could not be verified."


class UnknownBank(InvalidBeneficiary):
    message = "The chosen method does not support this bank."


class AccountNotSaved(InvalidBeneficiary):
    message = (
        "This merchant pays only to its saved accounts, and this account is not one of them for "
        "the chosen method. Save the account in the dashboard first."
    )


class GatewayPayoutFailed(Refusal):
    code = PayoutErrorCode.GATEWAY_PAYOUT_FAILED
    message = "The gateway rejected the transfer."


class PayoutFailed(Refusal):
    code = PayoutErrorCode.PAYOUT_FAILED
    message = "The payout could not be processed."


class AmountOutOfRange(PayoutFailed):
    message = "The amount is outside the method's limits."


class RowDecided(Refusal):
    """The payout file's row was already paid, rejected or stopped. Nothing was debited."""

    status, code = 409, "ROW_DECIDED"
    message = "This row was decided before."
