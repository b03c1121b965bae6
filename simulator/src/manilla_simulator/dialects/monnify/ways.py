"""Simulates Monnify's calls for saved cards and for mandates (direct debit)."""

from typing import Any

from manilla_simulator import cards, charges, mandates
from manilla_simulator.dialects.monnify.common import (
    UNKNOWN_CONTRACT,
    account_of,
    amount_of,
    own_reference,
)
from manilla_simulator.dialects.monnify.payments import transaction, word_for
from manilla_simulator.provider import Provider
from manilla_simulator.state import Charge, Mandate, MandateStatus
from manilla_simulator.wire import Answer, Ask, Denial, Notice, Refused, invalid

INVALID_TOKEN = Denial(400, "Invalid card token", "99")
EXPIRED_TOKEN = Denial(400, "Card token has expired.", "99")
UNKNOWN_MANDATE = Denial(404, "Mandate not found", "99")
NOT_ACTIVE = Denial(400, "Mandate is not active", "99")
TOO_MUCH = Denial(400, "Debit amount exceeds mandate amount", "99")
DUPLICATE_MANDATE = Denial(422, "Mandate with the reference already exists", "99")
INVALID_ACCOUNT = Denial(400, "Invalid account number supplied", "99")
# The words of status queries. The documentation of webhooks has ACTIVATED instead of ACTIVE.
WORDS = {
    MandateStatus.PENDING: "PENDING_AUTHORIZATION",
    MandateStatus.ACTIVE: "ACTIVE",
    MandateStatus.SUSPENDED: "SUSPENDED",
    MandateStatus.FAILED: "FAILED",
    MandateStatus.CANCELED: "CANCELLED",
    MandateStatus.EXPIRED: "EXPIRED",
}


def charge_token(provider: Provider, ask: Ask) -> Answer:
    """Charges a saved card. The response is that of a status query."""
    fields = ask.fields.only(
        *("cardToken", "amount", "customerEmail", "customerName", "paymentReference"),
        *("paymentDescription", "currencyCode", "contractCode", "apiKey", "metaData"),
        "incomeSplitConfig",
    )
    fields.currency("currencyCode")
    if fields.text("contractCode") != account_of(provider).contract_code:
        raise Refused(UNKNOWN_CONTRACT)
    if fields.text("apiKey") != account_of(provider).api_key:
        raise invalid("apiKey is not valid", "apiKey")
    card = provider.cards.get(fields.text("cardToken"))
    email = fields.email("customerEmail")
    if card is None or card.email != email:
        raise Refused(INVALID_TOKEN)
    if card.outcome == cards.CardOutcome.EXPIRED:
        raise Refused(EXPIRED_TOKEN)
    order = charges.Order(
        reference=fields.reference("paymentReference"),
        amount=amount_of(fields, "amount"),
        title=fields.text("paymentDescription", least=3),
        customer_name=fields.optional_text("customerName") or email,
        customer_email=email,
    )
    return Answer(transaction(provider, cards.charge_again(provider, card, order)), "success")


def create(provider: Provider, ask: Ask) -> Answer:
    """Creates a mandate. The first status is PENDING, and the link comes with a status query."""
    fields = ask.fields.only(
        *("contractCode", "mandateReference", "mandateAmount", "autoRenew"),
        *("customerCancellation", "customerName", "customerPhoneNumber", "customerAddress"),
        *("customerEmailAddress", "customerAccountNumber", "customerAccountBankCode"),
        *("mandateDescription", "mandateStartDate", "mandateEndDate", "redirectUrl"),
        "debitAmount",
    )
    reference = fields.reference("mandateReference")
    if fields.text("contractCode") != account_of(provider).contract_code:
        raise Refused(UNKNOWN_CONTRACT)
    if provider.mandates.get(reference) is not None:
        raise Refused(DUPLICATE_MANDATE)
    number = fields.text("customerAccountNumber")
    if len(number) != 10 or not number.isdigit() or number == "0000000002":
        raise Refused(INVALID_ACCOUNT)
    terms = mandates.Terms(
        reference=reference,
        amount=amount_of(fields, "mandateAmount"),
        customer_name=fields.text("customerName"),
        customer_email=fields.email("customerEmailAddress"),
        customer_phone=fields.text("customerPhoneNumber"),
        customer_address=fields.text("customerAddress"),
        account_number=number,
        bank_code=fields.text("customerAccountBankCode"),
        description=fields.text("mandateDescription"),
        starts_at=fields.text("mandateStartDate"),
        ends_at=fields.text("mandateEndDate"),
        redirect_url=fields.address("redirectUrl"),
    )
    mandate = mandates.create(provider, terms)
    body = {
        "responseMessage": "Your request for creating a mandate is submitted. An authorization "
        "instruction will be sent to the customer email.",
        "mandateReference": mandate.reference,
        "mandateCode": mandate.code,
        "mandateStatus": "PENDING",
    }
    return Answer(body, "success")


def query(provider: Provider, ask: Ask) -> Answer:
    found = provider.mandates.get(ask.query_text("mandateReferences"))
    return Answer([] if found is None else [_mandate(provider, found)], "success")


def _mandate(provider: Provider, mandate: Mandate) -> dict[str, Any]:
    waits = mandate.status is MandateStatus.PENDING
    return {
        "mandateCode": mandate.code,
        "mandateReference": mandate.reference,
        "startDate": f"{mandate.starts_at}.000+00:00",
        "endDate": f"{mandate.ends_at}.000+00:00",
        "mandateStatus": WORDS[mandate.status],
        "mandateAmount": mandate.amount.amount,
        "contractCode": account_of(provider).contract_code,
        "autoRenew": False,
        "customerPhoneNumber": mandate.customer_phone,
        "customerEmailAddress": mandate.customer_email,
        "customerAddress": mandate.customer_address,
        "customerName": mandate.customer_name,
        "customerAccountName": mandate.customer_name.upper(),
        "customerAccountNumber": mandate.account_number,
        "customerAccountBankCode": mandate.bank_code,
        "mandateDescription": mandate.description,
        "debitAmount": None,
        "authorizationMessage": f"Request {mandate.customer_name} to proceed" if waits else None,
        "authorizationLink": f"{provider.base_url}/mandate/{mandate.token}" if waits else None,
        "responseMessage": None if waits else f"{WORDS[mandate.status].title()} Mandate",
        "schemeCode": "NDD",
    }


def debit(provider: Provider, ask: Ask) -> Answer:
    """Debits a mandate. The result comes later, and only `debit_status` shows it."""
    fields = ask.fields.only(
        *("paymentReference", "mandateCode", "debitAmount", "narration", "customerEmail"),
        "incomeSplitConfig",
    )
    mandate = mandates.by_code(provider, fields.text("mandateCode"))
    if mandate is None:
        raise Refused(UNKNOWN_MANDATE)
    if mandate.status is not MandateStatus.ACTIVE:
        raise Refused(NOT_ACTIVE)
    amount = amount_of(fields, "debitAmount")
    if mandates.debited(provider, mandate) + amount > mandate.amount:
        raise Refused(TOO_MUCH)
    order = charges.Order(
        reference=fields.reference("paymentReference"),
        amount=amount,
        title=fields.text("narration"),
        customer_name=mandate.customer_name,
        customer_email=fields.email("customerEmail"),
    )
    charge = mandates.debit(provider, mandate, order)
    return Answer(_debit(charge, "Debit mandate request accepted for processing"), "success")


def debit_status(provider: Provider, ask: Ask) -> Answer:
    """Returns a debit. Its `responseMessage` is an empty object, as in the documentation."""
    charge = provider.charges.get(ask.query_text("paymentReference"))
    if charge is None or charge.mandate is None:
        raise Refused(Denial(404, "There's no transaction matching the supplied reference", "99"))
    return Answer(_debit(charges.refreshed(charge), {}), "success")


def _debit(charge: Charge, message: Any) -> dict[str, Any]:
    assert charge.mandate is not None
    return {
        "transactionStatus": word_for(charge),
        "responseMessage": charge.reason or message,
        "transactionReference": own_reference(charge),
        "paymentReference": charge.reference,
        "debitAmount": charge.amount.amount,
        "narration": charge.title,
        "mandateCode": charge.mandate.code,
    }


def cancel(provider: Provider, ask: Ask) -> Answer:
    """Cancels a mandate. The response has the status from before."""
    mandate = mandates.by_code(provider, ask.parameters["code"])
    if mandate is None:
        raise Refused(UNKNOWN_MANDATE)
    word = WORDS[mandate.status]
    if mandate.status in mandates.OPEN:
        mandates.change(provider, mandate, MandateStatus.CANCELED)
    body = {
        "responseMessage": "Mandate has been requested to be cancelled.",
        "mandateReference": mandate.reference,
        "mandateCode": mandate.code,
        "mandateStatus": word,
    }
    return Answer(body, "success")


def notice(provider: Provider, mandate: Mandate) -> Notice:
    """Returns the webhook, in which our reference and the active status have other names."""
    data = _mandate(provider, mandate)
    data["externalMandateReference"] = data.pop("mandateReference")
    if mandate.status is MandateStatus.ACTIVE:
        data["mandateStatus"] = "ACTIVATED"
    event = "MANDATE_UPDATE"
    return Notice(event, mandate.reference, {"eventType": event, "eventData": data})
