"""Simulates Kora's calls for the hosted page, one-time accounts and the status query."""

from decimal import Decimal
from typing import Any

from manilla.kit import clock
from manilla.kit.money import Money
from manilla_simulator import banks, charges, fees
from manilla_simulator.dialects.kora import accounts
from manilla_simulator.dialects.kora.common import (
    DENIALS,
    account_of,
    check_metadata,
    find_charge,
    is_test,
    listing,
    own_reference,
    plain_time,
    references,
)
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Charge, ChargeStatus
from manilla_simulator.wire import Answer, Ask, Denial, Fields, Notice, Refused, invalid

ACCOUNT_BANK = banks.KORA["035"]
FEE_PERCENT, FEE_MOST = Decimal("1.5"), Money(CURRENCY, 2_000_00)  # before VAT
STATUS_WORDS = {
    "pending": ChargeStatus.PENDING,
    "processing": ChargeStatus.PENDING,
    "failed": ChargeStatus.FAILED,
    "cancelled": ChargeStatus.FAILED,
    "expired": ChargeStatus.EXPIRED,
}
DEFAULT_WORD = {
    ChargeStatus.PENDING: "processing",
    ChargeStatus.SUCCESS: "success",
    ChargeStatus.FAILED: "failed",
    ChargeStatus.EXPIRED: "expired",
}
MESSAGES = {charges.DECLINED: "Do not honor", charges.INSUFFICIENT_FUNDS: "Insufficient funds"}
NO_SUCH_ACCOUNT = Denial(404, "Virtual bank account not found", "not_found")
_COMMON_FIELDS = (
    *("reference", "amount", "currency", "customer", "notification_url", "narration"),
    *("merchant_bears_cost", "metadata"),
)


def initialize(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(*_COMMON_FIELDS, "redirect_url", "channels", "default_channel")
    if "channels" in fields:
        fields.texts("channels")
    order = _order(fields, redirect_url=fields.address("redirect_url"))
    charge = charges.open_charge(provider, order)
    data = {
        "reference": charge.reference,
        "checkout_url": f"{provider.base_url}/checkout/{charge.token}",
    }
    return Answer(data, "Charge created successfully")


def open_account(provider: Provider, ask: Ask) -> Answer:
    test_only = ("auto_complete",) if is_test(provider) else ()
    fields = ask.fields.only(*_COMMON_FIELDS, "account_name", *test_only)
    auto_complete = fields.flag("auto_complete", default=True) and is_test(provider)
    name = fields.optional_text("account_name")
    order = _order(fields, banks=(ACCOUNT_BANK,), account_name=name)
    charge = charges.open_charge(provider, order)
    if auto_complete:
        charges.pay_later(provider, charge, account_of(provider).auto_complete_seconds)
    account = charge.accounts[0]
    fee, vat = _fee(charge.amount)
    data = {
        "currency": CURRENCY,
        "amount": charge.amount.amount,
        "amount_expected": charge.expected.amount,
        "fee": fee.amount,
        "vat": vat.amount,
        **references(provider, charge),
        "status": "processing",
        "narration": charge.title,
        "merchant_bears_cost": not order.customer_pays_fee,
        "bank_account": {
            "account_name": account.account_name,
            "account_number": account.account_number,
            "bank_name": account.bank_name,
            "bank_code": account.bank_code,
            "expiry_date_in_utc": clock.iso(charge.expires_at),
        },
        "customer": {"name": charge.customer_name, "email": charge.customer_email},
    }
    return Answer(data, "Bank transfer initiated successfully")


def _order(fields: Fields, **more: Any) -> charges.Order:
    fields.currency()
    check_metadata(fields)
    customer = fields.group("customer").only("email", "name")
    email = customer.email("email")
    return charges.Order(
        reference=fields.reference(least=8),
        amount=fields.amount(),
        title=fields.optional_text("narration"),
        notification_url=fields.address("notification_url"),
        customer_name=customer.optional_text("name") or email,
        customer_email=email,
        customer_pays_fee=not fields.flag("merchant_bears_cost", default=False),
        **more,
    )


def _fee(amount: Money) -> tuple[Money, Money]:
    """Returns the fee without VAT, and the VAT."""
    fee = min(amount.percent(FEE_PERCENT), FEE_MOST)
    return fee, fees.KORA.of_charge(amount) - fee


def query(provider: Provider, ask: Ask) -> Answer:
    charge = find_charge(provider, ask.parameters["reference"])
    if charge is None:
        assert DENIALS.charge_not_found is not None
        raise Refused(DENIALS.charge_not_found)
    charges.refreshed(charge)
    data = {
        **references(provider, charge),
        "status": word_for(charge),
        "amount": str(charge.amount.amount),
        "amount_paid": charge.amount_paid.amount,
        "amount_expected": str(charge.expected.amount),
        "fee": charge.fee.amount,
        "currency": CURRENCY,
        "description": charge.title,
        "payment_method": method_of(charge),
        "message": _message(charge),
        "customer": {"name": charge.customer_name, "email": charge.customer_email},
        **accounts.details(charge),
    }
    return Answer(data, "Charge retrieved successfully")


def word_for(charge: Charge) -> str:
    pending = charge.status is ChargeStatus.PENDING
    default = "pending" if pending and charge.is_hosted else DEFAULT_WORD[charge.status]
    return charge.provider_status or default


def method_of(charge: Charge) -> str:
    return "bank_transfer" if charge.accounts else "card"


def _message(charge: Charge) -> str | None:
    if charge.status is ChargeStatus.SUCCESS:
        return "Successful"
    return MESSAGES.get(charge.reason, charge.reason) or None


def credit_account(provider: Provider, ask: Ask) -> Answer:
    """Pays a one-time account. Only the sandbox offers this call."""
    fields = ask.fields.only("account_number", "amount", "currency")
    fields.currency()
    charge = provider.charges.by_account.get(fields.text("account_number"))
    if charge is None or not is_test(provider):
        raise Refused(NO_SUCH_ACCOUNT)
    if charges.refreshed(charge).status is not ChargeStatus.PENDING:
        raise invalid("This account has already been paid", "account_number")
    charges.pay(provider, charge, fields.amount())
    data = {"amount": str(charge.amount_paid.amount), "currency": CURRENCY, "status": "success"}
    return Answer(data, "Virtual bank account credited successfully")


def list_payments(provider: Provider, ask: Ask) -> Answer:
    def show(charge: Charge) -> dict[str, Any]:
        return {
            "reference": own_reference(charge),
            "status": word_for(charge),
            "amount": str(charge.amount.amount),
            "amount_paid": str(charge.amount_paid.amount),
            "amount_expected": str(charge.expected.amount),
            "fee": str(charge.fee.amount),
            "currency": CURRENCY,
            "description": charge.title,
            "payment_method": method_of(charge),
            "message": _message(charge),
            "payment_reference": charge.reference,
            "date_created": plain_time(charge.created_at),
            "date_completed": plain_time(charge.paid_at),
        }

    return listing(
        ask,
        list(provider.charges.select()),
        lambda charge: charge.number,
        lambda charge: charge.created_at,
        show,
        "Pay-ins retrieved successfully",
    )


def charge_notice(provider: Provider, charge: Charge) -> Notice:
    paid = charge.status is ChargeStatus.SUCCESS
    event = "charge.success" if paid else "charge.failed"
    data = {
        **references(provider, charge),
        "currency": CURRENCY,
        "amount": (charge.amount_paid if paid else charge.amount).amount,
        "fee": charge.fee.amount,
        "status": "success" if paid else "failed",
        "payment_method": method_of(charge),
        "transaction_status": _transaction_status(charge) if paid else "failed",
        **accounts.details(charge),
    }
    return Notice(event, charge.reference, {"event": event, "data": data}, charge.notification_url)


def _transaction_status(charge: Charge) -> str:
    if charge.amount_paid == charge.expected:
        return "success"
    return "underpaid" if charge.amount_paid < charge.expected else "overpaid"
