"""Which page shows a payment as it is now."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from manilla.methods.method import Flow, Method
from manilla.payments.charges import OPENING_SECONDS_MAX
from manilla.payments.checkout import View
from manilla.payments.payment import Charge, ChargeStatus, ErrorCode, Status


class Scene(StrEnum):
    """A page, by the name of its template."""

    METHODS = "methods"
    PREPARING = "preparing"  # another request is opening the charge at this moment
    TRANSFER = "transfer"
    WAITING = "waiting"
    SANDBOX = "sandbox"
    LINK_EXPIRED = "link_expired"  # the link is over, the payment not decided yet
    CLOSED = "closed"  # nothing but the way back
    HELD = "held"  # money came, but not as agreed
    SUCCESS = "success"
    DECLINED = "declined"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    EXPIRED = "expired"
    CANCELED = "canceled"


_FAILED = {
    ErrorCode.PAYMENT_DECLINED: Scene.DECLINED,
    ErrorCode.INSUFFICIENT_FUNDS: Scene.INSUFFICIENT_FUNDS,
    ErrorCode.EXPIRED_SESSION: Scene.EXPIRED,
    ErrorCode.PAYMENT_CANCELED: Scene.CANCELED,
}


# What the ways to pay are headed with when the last try was declined.
DECLINES = {
    ErrorCode.PAYMENT_DECLINED: "Your bank declined the payment. Please choose another way to pay.",
    ErrorCode.INSUFFICIENT_FUNDS: "There was not enough money in the account or on the card. "
    "Please choose another way to pay.",
}
LEFT = "You left without paying. Choose another way."


def scene_of(view: View) -> Scene:
    if view.payment.status is not Status.PENDING:
        return outcome_of(view)
    if view.held is not None:
        return Scene.HELD
    if view.is_blocked:
        return Scene.CLOSED
    if view.payment.is_sandbox:
        return Scene.SANDBOX if view.is_payable_in_sandbox else Scene.CLOSED
    if view.charge is not None:
        return _scene_of_charge(view, view.charge)
    return Scene.METHODS if view.offers else Scene.CLOSED


def outcome_of(view: View) -> Scene:
    payment = view.payment
    assert payment.status is not Status.PENDING
    if payment.status is Status.SUCCESS:
        return Scene.SUCCESS
    if view.held is not None:
        return Scene.HELD  # the payment has failed, but the customer's money is here
    return _FAILED[payment.error_code or ErrorCode.PAYMENT_DECLINED]


def version_of(view: View) -> str:
    """Changes whenever a customer should see another page than the present one."""
    charge, declined = (each.number if each else 0 for each in (view.charge, view.declined))
    return f"{scene_of(view)}-{charge}-{declined}-{view.released or ''}"


def decline_of(view: View) -> str | None:
    """Why the customer has to choose again, where the last try was declined."""
    if view.declined is None or view.declined.error_code is None:
        return None
    return DECLINES[view.declined.error_code]


def _scene_of_charge(view: View, charge: Charge) -> Scene:
    method = method_of(view)
    if method is None:
        return Scene.WAITING
    if charge.status is ChargeStatus.OPENING:
        return Scene.PREPARING if _is_under_way(charge) else Scene.METHODS
    is_transfer = method.flow is Flow.VIRTUAL_ACCOUNT and not _is_over(charge)
    return Scene.TRANSFER if is_transfer else Scene.WAITING


def _is_under_way(charge: Charge) -> bool:
    """Whether another request may still be opening it. If not, that request never came back."""
    return datetime.now(UTC) - charge.created_at < timedelta(seconds=OPENING_SECONDS_MAX)


def _is_over(charge: Charge) -> bool:
    """Whether the account takes no more money."""
    ends = charge.account_expires_at
    return ends is not None and ends <= datetime.now(UTC)


def can_choose(view: View) -> bool:
    is_open = view.payment.status is Status.PENDING and not view.is_blocked
    return is_open and view.held is None and not view.payment.is_sandbox and bool(view.offers)


def is_hosted(view: View) -> bool:
    """Whether there is a provider's page to go to, and its method is still offered."""
    charge = view.charge
    return charge is not None and bool(charge.checkout_url) and method_of(view) is not None


def method_of(view: View) -> Method | None:
    """The charge's. None where it is not offered any more: who has paid waits, nobody begins."""
    charge = view.charge
    if charge is None:
        return None
    found = (offer.method for offer in view.offers if offer.method.code == charge.method_code)
    return next(found, None)
