"""Decides which merchants may call the API.

Disabled and rejected merchants may not. Pending merchants may call it only in the sandbox.
"""

from manilla.kit.errors import Refusal
from manilla.merchants.directory import Caller
from manilla.merchants.merchants import MerchantStatus


class MerchantPendingApproval(Refusal):
    status, code = 403, "MERCHANT_PENDING_APPROVAL"
    message = "Merchant Pending Approval"


class MerchantSuspended(Refusal):
    status, code = 403, "MERCHANT_SUSPENDED"
    message = "The merchant account is disabled."


class MerchantRejected(MerchantSuspended):
    message = "The merchant account was rejected."


def is_available(caller: Caller) -> bool:
    return _obstacle(caller) is None


def check(caller: Caller) -> None:
    obstacle = _obstacle(caller)
    if obstacle is not None:
        raise obstacle


def _obstacle(caller: Caller) -> type[Refusal] | None:
    return obstacle(caller.status, is_sandbox=caller.is_sandbox)


def obstacle(status: MerchantStatus, *, is_sandbox: bool) -> type[Refusal] | None:
    """Returns the error for a merchant with this status, or None if the API accepts its calls."""
    match status:
        case MerchantStatus.REJECTED:
            return MerchantRejected
        case MerchantStatus.DISABLED:
            return MerchantSuspended
        case MerchantStatus.PENDING if not is_sandbox:
            return MerchantPendingApproval
    return None
