"""Simulates Monnify's calls for the hosted page, one-time accounts and the status query."""

from typing import Any

from manilla.kit.clock import LAGOS
from manilla.kit.money import Money
from manilla_simulator import banks, cards, charges, names
from manilla_simulator.dialects.monnify.common import (
    DENIALS,
    UNKNOWN_CONTRACT,
    account_of,
    amount_of,
    by_own_reference,
    clock_time,
    local_time,
    own_reference,
)
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Charge, ChargeStatus, VirtualAccount, now
from manilla_simulator.transfers import new_session_id
from manilla_simulator.wire import Answer, Ask, Denial, Notice, Refused, invalid

ACCOUNT_BANKS = {code: banks.MONNIFY[code] for code in ("035", "232", "50515")}
METHODS = ("CARD", "ACCOUNT_TRANSFER", "USSD", "PHONE_NUMBER")
STATUS_WORDS = {
    "PENDING": ChargeStatus.PENDING,
    "FAILED": ChargeStatus.FAILED,
    "CANCELLED": ChargeStatus.FAILED,
    "EXPIRED": ChargeStatus.EXPIRED,
}
DEFAULT_WORD = {
    ChargeStatus.PENDING: "PENDING",
    ChargeStatus.FAILED: "FAILED",
    ChargeStatus.EXPIRED: "EXPIRED",
}
NOT_OPEN = Denial(422, "Transaction is no longer open for payment", "99")


def initialize(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(
        *("amount", "customerName", "customerEmail", "paymentReference", "paymentDescription"),
        *("currencyCode", "contractCode", "redirectUrl", "paymentMethods", "incomeSplitConfig"),
        *("metadata", "metaData"),
    )
    fields.currency("currencyCode")
    methods = fields.texts("paymentMethods") if "paymentMethods" in fields else list(METHODS[:2])
    if not set(methods) <= set(METHODS):
        raise invalid("paymentMethods is not valid", "paymentMethods")
    email = fields.email("customerEmail")
    order = charges.Order(
        reference=fields.reference("paymentReference"),
        amount=amount_of(fields, "amount"),
        title=fields.text("paymentDescription", least=3),
        customer_name=fields.optional_text("customerName") or email,
        customer_email=email,
        redirect_url=fields.address("redirectUrl"),
    )
    if fields.text("contractCode") != account_of(provider).contract_code:
        raise Refused(UNKNOWN_CONTRACT)
    charge = charges.open_charge(provider, order)
    body = {
        "transactionReference": own_reference(charge),
        "paymentReference": charge.reference,
        "merchantName": "Simulated business",
        "apiKey": account_of(provider).api_key,
        "redirectUrl": charge.redirect_url,
        "enabledPaymentMethod": methods,
        "checkoutUrl": f"{provider.base_url}/checkout/{charge.token}",
    }
    return Answer(body, "success")


def open_account(provider: Provider, ask: Ask) -> Answer:
    """Opens a one-time account for a transaction, or returns the account that is already open."""
    fields = ask.fields.only("transactionReference", "bankCode")
    charge = _find(provider, by_own_reference(provider, fields.text("transactionReference")))
    bank_code = fields.optional_text("bankCode") or next(iter(ACCOUNT_BANKS))
    if bank_code not in ACCOUNT_BANKS:
        raise Refused(DENIALS.unknown_bank)
    if charge.status is not ChargeStatus.PENDING:
        raise Refused(NOT_OPEN)
    account = charge.accounts[0] if charge.accounts else _open(provider, charge, bank_code)
    moment = now()
    body = {
        "accountNumber": account.account_number,
        "accountName": account.account_name,
        "bankName": account.bank_name,
        "bankCode": account.bank_code,
        "accountDurationSeconds": int((charge.expires_at - moment).total_seconds()),
        "ussdPayment": None,
        "requestTime": f"{moment.astimezone(LAGOS):%Y-%m-%dT%H:%M:%S.%f}",
        "expiresOn": f"{charge.expires_at.astimezone(LAGOS):%Y-%m-%dT%H:%M:%S}",
        "transactionReference": own_reference(charge),
        "paymentReference": charge.reference,
        "amount": charge.amount.amount,
        "fee": charge.surcharge.amount,
        "totalPayable": charge.expected.amount,
        "collectionChannel": "API_NOTIFICATION",
        "productInformation": None,
    }
    return Answer(body, "success")


def _open(provider: Provider, charge: Charge, bank_code: str) -> VirtualAccount:
    order = charges.Order(
        reference=charge.reference,
        amount=charge.amount,
        customer_name=charge.customer_name,
        customer_email=charge.customer_email,
        banks=(ACCOUNT_BANKS[bank_code],),
        account_name=f"Simulated business-{charge.title}",
    )
    return charges.add_account(provider, charge, order)


def _find(provider: Provider, charge: Charge | None) -> Charge:
    assert DENIALS.charge_not_found is not None
    if charge is None:
        raise Refused(DENIALS.charge_not_found)
    return charges.refreshed(charge)


def status(provider: Provider, ask: Ask) -> Answer:
    charge = by_own_reference(provider, ask.parameters["transactionReference"])
    return Answer(transaction(provider, _find(provider, charge)), "success")


def query(provider: Provider, ask: Ask) -> Answer:
    """Finds a charge by our reference or by Monnify's reference."""
    ours, own = ask.query.get("paymentReference"), ask.query.get("transactionReference")
    if not ours and not own:
        raise invalid("transactionReference or paymentReference is required", "paymentReference")
    charge = provider.charges.get(ours) if ours else by_own_reference(provider, own or "")
    if charge is not None and charge.mandate is not None:
        charge = None  # Another call has the status of debits.
    return Answer(transaction(provider, _find(provider, charge)), "success")


def transaction(provider: Provider, charge: Charge) -> dict[str, Any]:
    """Returns the response to a status query. Amounts are strings here, but numbers in webhooks."""
    paid = charge.status is ChargeStatus.SUCCESS
    return {
        "transactionReference": own_reference(charge),
        "paymentReference": own_reference(charge) if charge.permanent else charge.reference,
        "amountPaid": str(charge.amount_paid.amount),
        "totalPayable": str(charge.expected.amount),
        "settlementAmount": str(charge.credited.amount) if paid else None,
        "paidOn": clock_time(charge.paid_at),
        "paymentStatus": word_for(charge),
        "paymentDescription": charge.title,
        "currency": CURRENCY,
        "paymentMethod": _method(charge),
        "product": _product(charge),
        "cardDetails": _card(provider, charge) if paid and not charge.accounts else None,
        "accountDetails": None,
        "accountPayments": [_sender(charge)] if charge.permanent else [],
        "customer": {"email": charge.customer_email, "name": charge.customer_name},
        "metaData": {},
    }


def _card(provider: Provider, charge: Charge) -> dict[str, Any]:
    card = cards.save(provider, charge, "MNFY_")
    return {
        "cardType": card.brand.title(),
        "last4": card.last4,
        "expMonth": f"{card.exp_month:02d}",
        "expYear": str(card.exp_year),
        "bin": "506066",
        "bankCode": None,
        "bankName": None,
        "reusable": card.reusable,
        "countryCode": None,
        "cardToken": card.reference if card.reusable else None,
        "supportsTokenization": card.reusable,
        "maskedPan": f"506066******{card.last4}",
    }


def word_for(charge: Charge) -> str:
    if charge.status is not ChargeStatus.SUCCESS:
        return charge.provider_status or DEFAULT_WORD[charge.status]
    if charge.amount_paid == charge.expected:
        return "PAID"
    return "PARTIALLY_PAID" if charge.amount_paid < charge.expected else "OVERPAID"


def _method(charge: Charge) -> str:
    if charge.mandate is not None:
        return "DIRECT_DEBIT"
    return "ACCOUNT_TRANSFER" if charge.accounts else "CARD"


def returns_amount(provider: Provider, charge: Charge, paid: Money) -> bool:
    return paid < charge.expected and not account_of(provider).accepts_underpayment


def charge_notice(_provider: Provider, charge: Charge) -> Notice | None:
    """Returns the webhook about a charge. Monnify sends no webhook about a failed payment."""
    if charge.status is not ChargeStatus.SUCCESS:
        return None
    by_transfer = bool(charge.accounts)
    data = {
        "product": _product(charge),
        "transactionReference": own_reference(charge),
        "paymentReference": own_reference(charge) if charge.permanent else charge.reference,
        "paidOn": local_time(charge.paid_at) if by_transfer else clock_time(charge.paid_at),
        "paymentDescription": charge.title,
        "metaData": {},
        "paymentSourceInformation": [_source(charge, charge.amount_paid)] if by_transfer else {},
        "destinationAccountInformation": _destination(charge) if by_transfer else {},
        "amountPaid": charge.amount_paid.amount,
        "totalPayable": charge.expected.amount,
        "cardDetails": {},
        "paymentMethod": _method(charge),
        "currency": CURRENCY,
        "settlementAmount": str(charge.credited.amount),
        "paymentStatus": word_for(charge),
        "customer": {"name": charge.customer_name, "email": charge.customer_email},
    }
    event = "SUCCESSFUL_TRANSACTION"
    return Notice(event, charge.reference, {"eventType": event, "eventData": data})


def _product(charge: Charge) -> dict[str, str]:
    """A transfer into a reserved account has our reference only here."""
    if charge.permanent is None:
        return {"type": "API_NOTIFICATION", "reference": charge.reference}
    return {"type": "RESERVED_ACCOUNT", "reference": charge.permanent.reference}


def _sender(charge: Charge) -> dict[str, Any]:
    return {
        "bankCode": "058",
        "amountPaid": str(charge.amount_paid.amount),
        "accountName": charge.payer.name,
        "sessionId": charge.payer.session_id,
        "accountNumber": charge.payer.account_number,
    }


def _source(charge: Charge, amount: Money) -> dict[str, Any]:
    if charge.permanent is not None:
        return _sender(charge)
    number = charge.accounts[0].account_number
    return {
        "bankCode": "058",
        "amountPaid": amount.amount,
        "accountName": names.holder_of(number),
        "sessionId": new_session_id(banks.MONNIFY["058"]),
        "accountNumber": f"******{number[-4:]}",
    }


def _destination(charge: Charge) -> dict[str, str]:
    account = charge.accounts[0]
    return {
        "bankCode": account.bank_code,
        "bankName": account.bank_name,
        "accountNumber": account.account_number,
    }


def returned_notice(_provider: Provider, charge: Charge, amount: Money) -> Notice:
    """Returns the webhook about returned money. Its `paymentSourceInformation` is an object."""
    account = charge.accounts[0]
    data = {
        "product": {"reference": charge.reference, "type": "API_NOTIFICATION"},
        "amount": charge.expected.amount,
        "paymentSourceInformation": _source(charge, amount),
        "transactionReference": own_reference(charge),
        "created_on": local_time(charge.created_at),
        "paymentReference": charge.reference,
        "paymentRejectionInformation": {
            "bankCode": account.bank_code,
            "destinationAccountNumber": account.account_number,
            "bankName": account.bank_name,
            "rejectionReason": "UNDER_PAYMENT",
            "expectedAmount": charge.expected.amount,
        },
        "paymentDescription": charge.title,
        "customer": {"name": charge.customer_name, "email": charge.customer_email},
    }
    event = "REJECTED_PAYMENT"
    return Notice(event, charge.reference, {"eventType": event, "eventData": data})
