"""Who may call at all: nobody who was closed, and who waits for approval in the sandbox alone."""

from manilla.kit.errors import Refusal
from manilla.merchants.directory import Caller
from manilla.merchants.merchants import Status


class MerchantPendingApproval(Refusal):
    status, code = 403, "MERCHANT_PENDING_APPROVAL"
    message = "Merchant Pending Approval"


class MerchantSuspended(Refusal):
    status, code = 403, "MERCHANT_SUSPENDED"
    message = "The merchant account is suspended."


def is_available(caller: Caller) -> bool:
    return _obstacle(caller) is None


def check(caller: Caller) -> None:
    obstacle = _obstacle(caller)
    if obstacle is not None:
        raise obstacle


def _obstacle(caller: Caller) -> type[Refusal] | None:
    if caller.status in (Status.REJECTED, Status.DISABLED):
        return MerchantSuspended
    if caller.status is Status.PENDING and not caller.is_sandbox:
        return MerchantPendingApproval
    return None
