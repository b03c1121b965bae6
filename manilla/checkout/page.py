"""Selects the checkout page that matches a payment's current state."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from manilla.kit import time_limits
from manilla.kit.errors import translatable
from manilla.methods.method import Flow, Method
from manilla.payments import declines
from manilla.payments.checkout import CheckoutView
from manilla.payments.payment import Charge, ChargeStatus, PaymentErrorCode, PaymentStatus


class CheckoutPage(StrEnum):
    """A checkout page. The value is the name of the page's template."""

    METHODS = "methods"
    PREPARING = "preparing"  # another request is creating the charge
    TRANSFER = "transfer"
    WAITING = "waiting"
    LINK_EXPIRED = "link_expired"  # the link expired before the payment's status was final
    CLOSED = "closed"  # payment is not possible, for example because there is no method
    HELD = "held"  # the received money does not match the payment
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


LEFT = translatable("You left without paying. Choose a payment method.")
NOT_CREATED = translatable(
    "We could not prepare your payment. Nothing was charged. Please choose again."
)


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
        return CheckoutPage.HELD  # the customer's money has arrived, but the payment has failed
    return _FAILED[payment.error_code or PaymentErrorCode.PAYMENT_DECLINED]


def version_of(view: CheckoutView) -> str:
    """Returns a version string that changes whenever the customer should see a different page."""
    charge, declined = (each.number if each else 0 for each in (view.charge, view.declined))
    received = view.payment.received_minor or 0
    return f"{page_of(view)}-{charge}-{declined}-{view.released or ''}-{received}"


def _decline_of(view: CheckoutView) -> str | None:
    """Returns why the last charge was declined, or None if it was not declined."""
    if view.declined is None or view.declined.error_code is None:
        return None
    return declines.decline_of(view.declined.reason or "").text


def alert_of(view: CheckoutView) -> str | None:
    """Returns what went wrong with the last charge, for the page with the payment methods."""
    charge = view.charge
    if charge is None or charge.status is not ChargeStatus.OPENING or _is_being_created(charge):
        return _decline_of(view)
    return NOT_CREATED


def _page_of_charge(view: CheckoutView, charge: Charge) -> CheckoutPage:
    method = method_of(view)
    if method is None:
        return CheckoutPage.WAITING
    if charge.status is ChargeStatus.OPENING:
        return CheckoutPage.PREPARING if _is_being_created(charge) else CheckoutPage.METHODS
    if method.flow is Flow.VIRTUAL_ACCOUNT:
        return CheckoutPage.WAITING if _is_account_expired(charge) else CheckoutPage.TRANSFER
    # The customer has not opened the provider's page, or left it without paying.
    return CheckoutPage.METHODS


def _is_being_created(charge: Charge) -> bool:
    """Returns whether another request may still be creating the charge.

    After a time limit, the charge counts as not created.
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
    """Returns whether the customer can continue an unfinished payment on a provider's page."""
    charge = view.charge
    is_hosted = charge is not None and bool(charge.checkout_url)
    return is_hosted and page_of(view) is CheckoutPage.METHODS


def method_of(view: CheckoutView) -> Method | None:
    """Returns the charge's method, or None if the method is no longer offered.

    Without the method, a customer can wait for the result of a payment, but cannot pay.
    """
    charge = view.charge
    if charge is None:
        return None
    found = (offer.method for offer in view.offers if offer.method.code == charge.method_code)
    return next(found, None)
