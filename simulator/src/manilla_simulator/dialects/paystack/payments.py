"""Simulates Paystack's calls for the hosted page, one-time accounts and verification."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from manilla.kit.money import Money
from manilla_simulator import banks, cards, charges
from manilla_simulator.dialects.formats import iso_milliseconds, optional_iso, random_code
from manilla_simulator.dialects.paystack.common import (
    INVALID_AMOUNT,
    INVALID_AUTHORIZATION,
    INVALID_EMAIL,
    INVALID_REFERENCE,
    NOT_REUSABLE,
    OTHER_EMAIL,
    REGULATED,
    account_of,
    customer,
    domain,
    kobo,
)
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Charge, ChargeStatus, RefundStatus, now
from manilla_simulator.wire import Answer, Ask, Denial, Fields, Notice, Refused

ACCOUNT_BANK = banks.PAYSTACK["035"]
TRANSFER_MINIMUM = Money(CURRENCY, 100_00)
TRANSFER_TOO_LITTLE = Denial(
    400,
    "Pay with transfer is not currently supported for transactions less than NGN 100.00",
    "invalid_amount",
)
NOTHING_TO_CHARGE = Denial(
    400,
    "One of Authorization code, card object, bank object, ussd object, mobile money object, "
    "qr object, or EFT object should be passed.",
    "missing_params",
)
# The minimum and maximum lifetime of a virtual account. Other requested lifetimes are clamped.
EXPIRY_LEAST, EXPIRY_MOST = timedelta(minutes=15), timedelta(hours=8)
STATUS_WORDS = {
    "abandoned": ChargeStatus.PENDING,
    "ongoing": ChargeStatus.PENDING,
    "pending": ChargeStatus.PENDING,
    "processing": ChargeStatus.PENDING,
    "queued": ChargeStatus.PENDING,
}
RESPONSES = {
    charges.DECLINED: "Declined",
    charges.INSUFFICIENT_FUNDS: "Insufficient Funds",
    "expired_card": "Expired Card",
}
_REFERENCE = re.compile(r"[A-Za-z0-9.=-]{1,100}")


def initialize(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(
        *("email", "amount", "currency", "reference", "callback_url", "channels", "metadata"),
        *("bearer", "split_code", "split", "subaccount", "transaction_charge", "plan", "label"),
    )
    if "channels" in fields:
        fields.texts("channels")
    order = _order(provider, fields, redirect_url=fields.address("callback_url"))
    charge = charges.open_charge(provider, order)
    data = {
        "authorization_url": f"{provider.base_url}/checkout/{charge.token}",
        "access_code": charge.token,
        "reference": charge.reference,
    }
    return Answer(data, "Authorization URL created")


def charge_by_transfer(provider: Provider, ask: Ask) -> Answer:
    """Opens a one-time account, which accepts only the exact amount."""
    fields = ask.fields.only(
        *("email", "amount", "currency", "reference", "metadata", "bank_transfer", "device_id"),
        *("split_code", "subaccount", "transaction_charge", "bearer"),
    )
    if "bank_transfer" not in fields:
        raise Refused(NOTHING_TO_CHARGE)
    expires_at = _expiry(fields.group("bank_transfer").only("account_expires_at"))
    order = _order(
        provider,
        fields,
        banks=(ACCOUNT_BANK,),
        account_name="PAYSTACK CHECKOUT",
        expires_at=expires_at,
    )
    if order.amount < TRANSFER_MINIMUM:
        raise Refused(TRANSFER_TOO_LITTLE)
    charge = charges.open_charge(provider, order)
    account = charge.accounts[0]
    data = {
        "status": "pending_bank_transfer",
        "display_text": "Please make a transfer to the account specified",
        "reference": charge.reference,
        "amount": charge.expected.minor,
        "account_name": account.account_name,
        "account_number": account.account_number,
        "bank": {"slug": ACCOUNT_BANK.slug, "name": account.bank_name, "id": 24},
        "account_expires_at": iso_milliseconds(charge.expires_at),
    }
    return Answer(data, "Charge attempted")


def _order(provider: Provider, fields: Fields, **more: Any) -> charges.Order:
    if "currency" in fields:
        fields.currency()
    reference = fields.optional_text("reference") or random_code("", 10)
    if not _REFERENCE.fullmatch(reference):
        raise Refused(INVALID_REFERENCE)
    amount = kobo(fields, INVALID_AMOUNT)
    try:
        email = fields.email("email")
    except Refused:
        raise Refused(INVALID_EMAIL) from None
    return charges.Order(
        reference=reference,
        amount=amount,
        customer_name=email,
        customer_email=email,
        customer_pays_fee=account_of(provider).customer_pays_fees,
        **more,
    )


def _expiry(fields: Fields) -> datetime:
    moment = now()
    text = fields.optional_text("account_expires_at")
    try:
        wanted = datetime.fromisoformat(text) if text else moment + EXPIRY_MOST
    except ValueError:
        raise Refused(Denial(400, "account_expires_at is invalid", "invalid_params")) from None
    wanted = wanted if wanted.tzinfo else wanted.replace(tzinfo=UTC)
    return min(max(wanted, moment + EXPIRY_LEAST), moment + EXPIRY_MOST)


def verify(provider: Provider, ask: Ask) -> Answer:
    try:
        charge = charges.find(provider, ask.parameters["reference"])
    except Refused as refused:
        if not account_of(provider).unknown_charge_is_400:
            raise
        raise Refused(Denial(400, refused.denial.message, refused.denial.code)) from None
    return Answer(charge_data(provider, charge), "Verification successful")


def charge_data(provider: Provider, charge: Charge) -> dict[str, Any]:
    paid = charge.status is ChargeStatus.SUCCESS
    created_at, paid_at = iso_milliseconds(charge.created_at), optional_iso(charge.paid_at)
    channel = "bank_transfer" if charge.accounts else "card"
    authorization: dict[str, Any] = {"channel": channel, "country_code": "NG"}
    if charge.permanent is not None:
        # The charge has a reference of Paystack's. Only account and customer identify who paid.
        channel = authorization["channel"] = "dedicated_nuban"
        authorization |= {
            "sender_name": charge.payer.name,
            "sender_bank": charge.payer.bank,
            "sender_bank_account_number": charge.payer.account_number,
            "narration": "School fees",
            "receiver_bank": charge.permanent.bank_name,
            "receiver_bank_account_number": charge.accounts[0].account_number,
        }
    elif paid and not charge.accounts:
        authorization = _card(provider, charge)
    return {
        "id": charge.number,
        "domain": domain(provider),
        "status": _status(provider, charge),
        "reference": charge.reference,
        "receipt_number": None,
        "amount": (charge.amount_paid if paid else charge.expected).minor,
        "message": None,
        "gateway_response": _gateway_response(charge),
        "paid_at": paid_at,
        "created_at": created_at,
        "channel": channel,
        "currency": CURRENCY,
        "ip_address": "127.0.0.1",
        "metadata": "",
        "log": None,
        "fees": charge.fee.minor if paid else None,
        "fees_split": None,
        "authorization": authorization if paid else {},
        "customer": customer(charge),
        "plan": None,
        "split": {},
        "order_id": None,
        "paidAt": paid_at,
        "createdAt": created_at,
        "requested_amount": charge.amount.minor,
        "pos_transaction_data": None,
        "source": None,
        "fees_breakdown": None,
        "transaction_date": created_at,
        "plan_object": {},
        "subaccount": {},
    }


def _card(provider: Provider, charge: Charge) -> dict[str, Any]:
    """Returns the card that paid the charge, with its reusable code."""
    card = cards.save(provider, charge)
    return {
        "authorization_code": card.reference,
        "bin": "506066",
        "last4": card.last4,
        "exp_month": f"{card.exp_month:02d}",
        "exp_year": str(card.exp_year),
        "channel": "card",
        "card_type": f"{card.brand} ",
        "bank": "TEST BANK",
        "country_code": "NG",
        "brand": card.brand,
        "reusable": card.reusable and not card.is_deleted,
        "signature": f"SIG_{card.reference[5:]}",
        "account_name": None,
    }


def charge_authorization(provider: Provider, ask: Ask) -> Answer:
    """Charges a saved card. The response has status 200, whether the bank pays or declines it."""
    fields = ask.fields.only(
        *("email", "amount", "currency", "reference", "authorization_code", "metadata", "queue"),
        *("split_code", "subaccount", "transaction_charge", "bearer", "channels"),
    )
    card = provider.cards.get(fields.text("authorization_code"))
    if card is None or card.is_deleted:
        raise Refused(INVALID_AUTHORIZATION)
    if not card.reusable:
        raise Refused(NOT_REUSABLE)
    order = _order(provider, fields)
    if order.customer_email != card.email:
        raise Refused(OTHER_EMAIL)
    if card.outcome == cards.CardOutcome.REGULATED:
        raise Refused(REGULATED)
    charge = cards.charge_again(provider, card, order, confirms=True)
    if charge.is_hosted:
        paused = {
            "authorization_url": f"{provider.base_url}/checkout/{charge.token}",
            "reference": charge.reference,
            "access_code": charge.token,
            "paused": True,
        }
        text = "Please, redirect your customer to the authorization url provided"
        return Answer(paused, text)
    return Answer(charge_data(provider, charge), "Charge attempted")


def deactivate(provider: Provider, ask: Ask) -> Answer:
    card = provider.cards.get(ask.fields.only("authorization_code").text("authorization_code"))
    if card is None or card.is_deleted:
        raise Refused(INVALID_AUTHORIZATION)
    card.is_deleted = True
    return Answer(None, "Authorization has been deactivated")


def _status(provider: Provider, charge: Charge) -> str:
    """Returns the charge's status. An unopened charge is `abandoned`, but can still be paid."""
    if charge.provider_status:
        return charge.provider_status
    match charge.status:
        case ChargeStatus.SUCCESS:
            return "reversed" if _is_reversed(provider, charge) else "success"
        case ChargeStatus.FAILED:
            return "failed"
        case ChargeStatus.PENDING if charge.accounts or charge.was_opened or charge.card:
            return "ongoing"
    return "abandoned"


def _is_reversed(provider: Provider, charge: Charge) -> bool:
    if charge.refunded + charge.disputed < charge.amount_paid:
        return False
    returned = [each for each in provider.refunds.select() if each.charge is charge]
    return all(each.status is not RefundStatus.PROCESSING for each in returned)


def _gateway_response(charge: Charge) -> str:
    if charge.status is ChargeStatus.SUCCESS:
        return "Approved" if charge.accounts else "Successful"
    if charge.status is ChargeStatus.FAILED:
        return RESPONSES.get(charge.reason, charge.reason)
    return "The transaction was not completed"


def charge_notice(provider: Provider, charge: Charge) -> Notice | None:
    """Returns the webhook about a charge. Paystack sends no webhook about a failed payment."""
    if charge.status is not ChargeStatus.SUCCESS:
        return None
    body = {"event": "charge.success", "data": charge_data(provider, charge)}
    return Notice("charge.success", charge.reference, body)


def returned_notice(_provider: Provider, charge: Charge, amount: Money) -> Notice:
    """Returns the webhook about a wrong amount that was returned. It lacks our reference."""
    returned = {
        "amount": str(amount.minor),
        "message": "incorrect amount sent",
        "message_type": "INCORRECT_AMOUNT",
        "transaction_id": str(charge.number),
    }
    data = {"bank_transfer": returned, "customer": customer(charge)}
    event = "bank.transfer.rejected"
    return Notice(event, charge.reference, {"event": event, "data": data})
