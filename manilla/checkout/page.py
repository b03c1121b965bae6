"""Selects the checkout page that matches a payment's current state."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from manilla.kit import time_limits
from manilla.methods.method import Flow, Method
from manilla.payments import declines
from manilla.payments.checkout import CheckoutView
from manilla.payments.payment import Charge, ChargeStatus, PaymentErrorCode, PaymentStatus


class CheckoutPage(StrEnum):
    """A checkout page; the value is the name of its template."""

    METHODS = "methods"
    PREPARING = "preparing"  # another request is creating the charge right now
    TRANSFER = "transfer"
    WAITING = "waiting"
    LINK_EXPIRED = "link_expired"  # the link has expired, but the payment's status is not final
    CLOSED = "closed"  # the page only has a link back to the merchant
    HELD = "held"  # money was received that does not match the payment
    SUCCESS = "success"
    DECLINED = "declined"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    EXPIRED = "expired"
    CANCELED = "canceled"


_FAILED = {
    PaymentErrorCode.PAYMENT_DECLINED: CheckoutPage.DECLINED,
    PaymentErrorCode.INSUFFICIENT_FUNDS: CheckoutPage.INSUFFICIENT_FUNDS,
    PaymentErrorCode.EXPIRED_SESSION: CheckoutPage.EXPIRED,
    PaymentErrorCode.PAYMENT_CANCELED: CheckoutPage.CANCELED,
}


LEFT = "You left without paying. Choose a payment method."


def page_of(view: CheckoutView) -> CheckoutPage:
    if view.payment.status is not PaymentStatus.PENDING:
        return outcome_page(view)
    if view.held is not None:
        return CheckoutPage.HELD
    if view.is_blocked:
        return CheckoutPage.CLOSED
    if view.payment.is_sandbox and not view.offers:
        return CheckoutPage.CLOSED
    if view.charge is not None:
        return _page_of_charge(view, view.charge)
    return CheckoutPage.METHODS if view.offers else CheckoutPage.CLOSED


def outcome_page(view: CheckoutView) -> CheckoutPage:
    payment = view.payment
    assert payment.status is not PaymentStatus.PENDING
    if payment.status is PaymentStatus.SUCCESS:
        return CheckoutPage.SUCCESS
    if view.held is not None:
        return CheckoutPage.HELD  # the payment has failed, but the customer's money was received
    return _FAILED[payment.error_code or PaymentErrorCode.PAYMENT_DECLINED]


def version_of(view: CheckoutView) -> str:
    """Returns a version that changes whenever the customer should see a different page."""
    charge, declined = (each.number if each else 0 for each in (view.charge, view.declined))
    received = view.payment.received_minor or 0
    return f"{page_of(view)}-{charge}-{declined}-{view.released or ''}-{received}"


def decline_of(view: CheckoutView) -> str | None:
    """Returns why the last charge was declined, if the customer has to choose a method again."""
    if view.declined is None or view.declined.error_code is None:
        return None
    return declines.decline_of(view.declined.reason or "").text


def _page_of_charge(view: CheckoutView, charge: Charge) -> CheckoutPage:
    method = method_of(view)
    if method is None:
        return CheckoutPage.WAITING
    if charge.status is ChargeStatus.OPENING:
        return CheckoutPage.PREPARING if _is_being_created(charge) else CheckoutPage.METHODS
    if method.flow is Flow.VIRTUAL_ACCOUNT:
        return CheckoutPage.WAITING if _is_account_expired(charge) else CheckoutPage.TRANSFER
    # The customer came back from the provider's page without a result, or was never there.
    return CheckoutPage.METHODS


def _is_being_created(charge: Charge) -> bool:
    """Whether another request may still be creating the charge.

    After a time limit, the creation counts as failed.
    """
    limit = timedelta(seconds=time_limits.current.charge_opening_seconds)
    return datetime.now(UTC) - charge.created_at < limit


def _is_account_expired(charge: Charge) -> bool:
    ends = charge.account_expires_at
    return ends is not None and ends <= datetime.now(UTC)


def can_choose(view: CheckoutView) -> bool:
    is_open = view.payment.status is PaymentStatus.PENDING and not view.is_blocked
    return is_open and view.held is None and bool(view.offers)


def is_unfinished(view: CheckoutView) -> bool:
    """Whether the customer has started to pay on a provider's page and can continue there."""
    charge = view.charge
    is_hosted = charge is not None and bool(charge.checkout_url)
    return is_hosted and page_of(view) is CheckoutPage.METHODS


def method_of(view: CheckoutView) -> Method | None:
    """Returns the charge's method, or None if it is no longer offered.

    With None, a customer who has already paid can still wait for the result, but nobody can start
    to pay.
    """
    charge = view.charge
    if charge is None:
        return None
    found = (offer.method for offer in view.offers if offer.method.code == charge.method_code)
    return next(found, None)
