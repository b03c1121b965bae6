"""Simulates Flutterwave's calls for payment links, one-time accounts and verification."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from manilla_simulator import banks, cards, charges
from manilla_simulator.dialects.flutterwave.common import (
    ACCOUNT_ID,
    DENIALS,
    account_of,
    own_reference,
)
from manilla_simulator.dialects.formats import iso_milliseconds
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Charge, ChargeStatus, now
from manilla_simulator.wire import Answer, Ask, Denial, Fields, Notice, Refused, invalid

ACCOUNT_BANK = banks.FLUTTERWAVE["035"]
STATUS = {
    ChargeStatus.PENDING: "pending",
    ChargeStatus.EXPIRED: "pending",  # Flutterwave has no status for expired charges.
    ChargeStatus.SUCCESS: "successful",
    ChargeStatus.FAILED: "failed",
}
RESPONSES = {
    charges.DECLINED: "Declined",
    charges.INSUFFICIENT_FUNDS: "Insufficient Funds",
    "expired_card": "Expired Card",
}
NO_TOKEN = Denial(400, "Wrong token or email passed. Please verify and try again")
EXPIRES_SECONDS_MAX = 365 * 24 * 3600
NO_STATIC_ACCOUNTS = Denial(400, "Static virtual accounts are not enabled on this account")


def open_link(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(
        *("tx_ref", "amount", "currency", "redirect_url", "customer", "customizations", "meta"),
        *("payment_options", "payment_plan", "subaccounts", "session_duration", "link_expiration"),
        *("max_retry_attempt", "configurations"),
    )
    if "currency" in fields:
        fields.currency()
    customer = fields.group("customer").only("email", "name", "phonenumber")
    title = ""
    if "customizations" in fields:
        shown = fields.group("customizations").only("title", "description", "logo")
        title = shown.optional_text("title")
    fields.text("redirect_url")
    email = customer.email("email")
    order = charges.Order(
        reference=fields.reference("tx_ref"),
        amount=fields.amount_of_any_type(),
        customer_name=customer.optional_text("name") or email,
        customer_email=email,
        title=title,
        redirect_url=fields.address("redirect_url"),
    )
    charge = charges.open_charge(provider, order)
    return Answer({"link": f"{provider.base_url}/checkout/{charge.token}"}, "Hosted Link")


def charge_by_transfer(provider: Provider, ask: Ask) -> Answer:
    """Opens a one-time account. The response has the account in `meta`, next to `data`."""
    if ask.query_text("type") != "bank_transfer":
        raise invalid("type is not supported", "type")
    fields = ask.fields.only(
        *("tx_ref", "amount", "currency", "email", "is_permanent", "narration", "fullname"),
        *("phone_number", "client_ip", "device_fingerprint", "meta", "expires", "redirect_url"),
    )
    fields.currency()
    if fields.flag("is_permanent", default=False):
        raise Refused(NO_STATIC_ACCOUNTS)
    order = msgspec.structs.replace(_account_order(fields), expires_at=_expiry(fields))
    charge = charges.open_charge(provider, order)
    account = charge.accounts[0]
    authorization = {
        "transfer_reference": own_reference(charge),
        "transfer_account": account.account_number,
        "transfer_bank": account.bank_name.upper(),
        "account_expiration": iso_milliseconds(charge.expires_at),
        "transfer_note": f"Please make a bank transfer to {account.account_name}",
        "transfer_amount": str(charge.expected.amount),
        "mode": "banktransfer",
    }
    return Answer(None, "Charge initiated", more={"meta": {"authorization": authorization}})


def _expiry(fields: Fields) -> datetime | None:
    """Returns when the account expires, from the number of seconds in the request."""
    if "expires" not in fields:
        return None
    seconds = fields.whole_number("expires", most=EXPIRES_SECONDS_MAX)
    return now() + timedelta(seconds=seconds)


def open_one_time_account(provider: Provider, fields: Fields) -> Answer:
    charge = charges.open_charge(provider, _account_order(fields))
    account = charge.accounts[0]
    data = {
        "response_code": "02",
        "response_message": "Transaction in progress",
        "flw_ref": own_reference(charge),
        "order_ref": f"URF_{charge.number}",
        "account_number": account.account_number,
        "frequency": "1",
        "bank_name": account.bank_name.upper(),
        "created_at": f"{charge.created_at:%Y-%m-%d %H:%M:%S}",
        "expiry_date": f"{charge.expires_at:%Y-%m-%d %H:%M:%S}",
        "note": f"Please make a bank transfer to {account.account_name}",
        "amount": str(charge.expected.amount),
    }
    return Answer(data, "Virtual account created")


def _account_order(fields: Fields) -> charges.Order:
    email = fields.email("email")
    narration = fields.optional_text("narration", most=100)
    return charges.Order(
        reference=fields.reference("tx_ref"),
        amount=fields.amount_of_any_type(),
        customer_name=fields.optional_text("fullname", most=100) or email,
        customer_email=email,
        title=narration,
        banks=(ACCOUNT_BANK,),
        account_name=f"{narration or 'Simulated business'} FLW",
    )


def charge_token(provider: Provider, ask: Ask) -> Answer:
    """Charges a saved card. A declined charge exists too, and its status says that it failed."""
    fields = ask.fields.only(
        *("token", "currency", "country", "amount", "email", "tx_ref", "narration", "ip"),
        *("first_name", "last_name", "do_3ds", "subaccounts", "meta", "redirect_url"),
    )
    card = provider.cards.get(fields.text("token"))
    email = fields.email("email")
    if card is None or card.is_deleted or card.email != email:
        raise Refused(NO_TOKEN)
    fields.currency()
    order = charges.Order(
        reference=fields.reference("tx_ref"),
        amount=fields.amount_of_any_type(),
        customer_name=email,
        customer_email=email,
        title=fields.text("narration", most=100),
    )
    charge = cards.charge_again(provider, card, order)
    return Answer(charge_data(provider, charge), "Charge successful")


def verify_by_reference(provider: Provider, ask: Ask) -> Answer:
    charge = charges.find(provider, ask.query_text("tx_ref"))
    return Answer(_known(provider, charge), "Transaction fetched successfully")


def verify(provider: Provider, ask: Ask) -> Answer:
    charge = by_number(provider, ask.parameters["id"])
    return Answer(_known(provider, charge), "Transaction fetched successfully")


def by_number(provider: Provider, number: str) -> Charge:
    charge = provider.charges.by_number.get(int(number) if number.isdecimal() else 0)
    if charge is None:
        assert DENIALS.charge_not_found is not None
        raise Refused(DENIALS.charge_not_found)
    return charges.refreshed(charge)


def _known(provider: Provider, charge: Charge) -> dict[str, Any]:
    """Returns the charge's data. A payment link has no data before the first payment attempt."""
    is_unpaid = charge.status in (ChargeStatus.PENDING, ChargeStatus.EXPIRED)
    untouched = charge.is_hosted and charge.card is None and is_unpaid
    if untouched and account_of(provider).unpaid_links_are_unknown:
        assert DENIALS.charge_not_found is not None
        raise Refused(DENIALS.charge_not_found)
    return charge_data(provider, charge)


def charge_data(provider: Provider, charge: Charge) -> dict[str, Any]:
    paid = charge.status is ChargeStatus.SUCCESS
    return {
        "id": charge.number,
        "tx_ref": charge.permanent.holder if charge.permanent else charge.reference,
        "flw_ref": own_reference(charge),
        "device_fingerprint": "N/A",
        "amount": (charge.amount_paid if paid else charge.amount).amount,
        "currency": CURRENCY,
        "charged_amount": charge.amount_paid.amount,
        "app_fee": charge.fee.amount,
        "merchant_fee": Decimal(0),
        "processor_response": _response(charge),
        "auth_model": "AUTH" if charge.accounts else "PIN",
        "ip": "127.0.0.1",
        "narration": charge.title,
        "status": STATUS[charge.status],
        "payment_type": "bank_transfer" if charge.accounts else "card",
        "created_at": iso_milliseconds(charge.created_at),
        "account_id": ACCOUNT_ID,
        "amount_settled": charge.credited.amount,
        **_meta(charge),
        "customer": {
            "id": charge.number + 500_000_000,
            "name": charge.customer_name,
            "phone_number": None,
            "email": charge.customer_email,
            "created_at": iso_milliseconds(charge.created_at),
        },
        **({"card": _card(provider, charge)} if paid and not charge.accounts else {}),
    }


def _card(provider: Provider, charge: Charge) -> dict[str, Any]:
    """Returns the card. Flutterwave has a token only for a card that can be charged again."""
    card = cards.save(provider, charge, "flw-t1nf-")
    return {
        "first_6digits": "506066",
        "last_4digits": card.last4,
        "issuer": f"{card.brand.upper()} TEST BANK",
        "country": "NG",
        "type": card.brand.upper(),
        "expiry": f"{card.exp_month:02d}/{card.exp_year % 100:02d}",
        **({"token": card.reference} if card.reusable else {}),
    }


def _meta(charge: Charge) -> dict[str, Any]:
    """Returns who sent the transfer into a permanent account."""
    if charge.permanent is None:
        return {}
    sender = {
        "originatorname": charge.payer.name,
        "bankname": charge.payer.bank,
        "originatoraccountnumber": charge.payer.account_number,
    }
    return {"meta": sender}


def _response(charge: Charge) -> str:
    if charge.status is ChargeStatus.SUCCESS:
        return "Approved by Financial Institution"
    if charge.status is ChargeStatus.FAILED:
        return RESPONSES.get(charge.reason, charge.reason)
    return "Pending"


def charge_notice(provider: Provider, charge: Charge) -> Notice:
    """Returns the webhook about a charge. Flutterwave also sends webhooks about failed payments."""
    kind = "BANK_TRANSFER_TRANSACTION" if charge.accounts else "CARD_TRANSACTION"
    body = {"event": "charge.completed", "data": charge_data(provider, charge), "event.type": kind}
    return Notice("charge.completed", charge.reference, body)
