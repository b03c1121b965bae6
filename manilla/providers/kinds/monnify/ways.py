"""Charges saved cards at Monnify, and debits bank accounts with mandates (direct debit)."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

from manilla.kit.http import is_web_address
from manilla.providers import cards, port, reading
from manilla.providers.kinds.monnify import answers, errors
from manilla.providers.kinds.monnify.tokens import TokenWire
from manilla.providers.port import Answer, RefusalCode, Refused, ReusableCard, WayCharge
from manilla.providers.port import ReportedMandateStatus as Status
from manilla.providers.replies import Reply

CARDS = "/api/v1/merchant/cards/charge-card-token"
MANDATES = "/api/v1/direct-debit/mandate"
NAMES = {"brand": "cardType", "last4": "last4"}
TEXT_LENGTH_MAX = 100
# After these errors, Monnify has made no charge.
NOT_CHARGED = (
    *("card token has expired", "invalid card token", "card token not found"),
    *("mandate is not active", "mandate not found", "mandate has expired", "mandate is inactive"),
    "exceeds mandate amount",
)
NOT_CREATED = ("invalid account", "account number", "bank code", "already has", "not enabled")
# The documentation and the sandbox use different words for one status.
MANDATE_STATUSES = {
    **dict.fromkeys(
        ("INITIATED", "PENDING", "PENDING_AUTHORIZATION", "PENDING_ACTIVATION"), Status.PENDING
    ),
    **dict.fromkeys(("ACTIVE", "ACTIVATED"), Status.ACTIVE),
    "SUSPENDED": Status.SUSPENDED,
    "FAILED": Status.FAILED,
    **dict.fromkeys(("CANCELLED", "CANCELED"), Status.CANCELED),
    **dict.fromkeys(("EXPIRED", "AUTHORIZATION_EXPIRED"), Status.EXPIRED),
}
NO_MANDATE = port.MandateState(status=Status.NOT_FOUND)


class MonnifyCards:
    def __init__(self, pay_in: TokenWire, api_key: str, contract_code: str) -> None:
        self._pay_in = pay_in
        self._api_key, self._contract_code = api_key, contract_code

    async def charge(self, order: port.WayOrder) -> Answer[WayCharge]:
        body = {
            "cardToken": order.token,
            "amount": order.amount.amount,
            "customerEmail": order.customer_email,
            "customerName": order.customer_name,
            "paymentReference": order.reference,
            "paymentDescription": order.description,
            "currencyCode": order.amount.currency,
            "contractCode": self._contract_code,
            "apiKey": self._api_key,
        }
        return await _charge(self._pay_in, CARDS, body, order)

    async def forget(self, token: str) -> Answer[None]:
        del token
        return cards.NO_CALL


class MonnifyMandates:
    def __init__(self, pay_in: TokenWire, contract_code: str) -> None:
        self._pay_in, self._contract_code = pay_in, contract_code

    async def create(self, order: port.MandateOrder) -> Answer[port.MandateState]:
        body = {
            "contractCode": self._contract_code,
            "mandateReference": order.reference,
            "mandateAmount": order.amount.amount,
            "autoRenew": False,
            "customerCancellation": True,
            "customerName": order.customer_name,
            "customerPhoneNumber": order.customer_phone,
            "customerEmailAddress": order.customer_email,
            "customerAddress": order.customer_address,
            "customerAccountNumber": order.account_number,
            "customerAccountBankCode": order.bank_code,
            "mandateDescription": order.description,
            "mandateStartDate": _local(order.starts_at),
            "mandateEndDate": _local(order.ends_at),
            "redirectUrl": order.redirect_url,
        }
        decide = cards.decide(NOT_CREATED, lambda data: mandate(data, order.reference))
        return await self._pay_in.call("POST", f"{MANDATES}/create", decide, body=body)

    async def state(self, reference: str) -> Answer[port.MandateState]:
        def read(data: Any) -> port.MandateState:
            listed = reading.items(data)
            return mandate(listed[0], reference) if listed else NO_MANDATE

        query = {"mandateReferences": reference}
        decide = errors.found_or(NO_MANDATE)
        return await self._pay_in.get(f"{MANDATES}/", read, decide, query=query)

    async def debit(self, order: port.WayOrder) -> Answer[WayCharge]:
        body = {
            "paymentReference": order.reference,
            "mandateCode": order.token,
            "debitAmount": order.amount.amount,
            "narration": order.description[:TEXT_LENGTH_MAX],
            "customerEmail": order.customer_email,
        }
        return await _charge(self._pay_in, f"{MANDATES}/debit", body, order)

    async def debit_state(self, reference: str) -> Answer[port.ChargeState]:
        return await self._pay_in.get(
            f"{MANDATES}/debit-status",
            lambda data: _debit_state(data, reference),
            errors.find_charge,
            query={"paymentReference": reference},
        )

    async def cancel(self, code: str) -> Answer[None]:
        path = f"{MANDATES}/cancel-mandate/{quote(code, safe='')}"

        def read(reply: Reply) -> Answer[None]:
            return errors.found_or(None)(reply, lambda _data: None)

        return await self._pay_in.call("PATCH", path, read)


async def _charge(
    wire: TokenWire, path: str, body: dict[str, Any], order: port.WayOrder
) -> Answer[WayCharge]:
    if answers.is_too_little(order.amount):
        return Refused(RefusalCode.PAYMENT_DECLINED, answers.TOO_LITTLE)
    decide = cards.decide(
        NOT_CHARGED, lambda data: cards.read_charge(data, "paymentReference", order.reference)
    )
    return await wire.call("POST", path, decide, body=body)


def mandate(data: Any, reference: str) -> port.MandateState:
    """Parses a mandate, in whose samples our reference has two names."""
    name = "mandateReference" if "mandateReference" in data else "externalMandateReference"
    reading.same_reference(data, name, reference)
    link = data.get("authorizationLink")
    return port.MandateState(
        status=reading.one_of(MANDATE_STATUSES, data, "mandateStatus"),
        code=cards.token(data, "mandateCode"),
        action_url=link if isinstance(link, str) and is_web_address(link) else None,
        instructions=reading.optional_text(data, "authorizationMessage"),
    )


def _debit_state(data: Any, reference: str) -> port.ChargeState:
    reading.same_reference(data, "paymentReference", reference)
    status = reading.one_of(answers.CHARGE_STATUSES, data, "transactionStatus")
    is_paid = status is port.ReportedChargeStatus.PAID
    return port.ChargeState(
        status=status,
        paid=answers.amount(data, "debitAmount") if is_paid else None,
        reason=reading.optional_text(data, "responseMessage"),
        provider_reference=reading.optional_text(data, "transactionReference") or None,
    )


def of_charge(data: Any) -> ReusableCard | None:
    """Returns the card of a paid charge, or None if Monnify cannot charge it again."""
    used = data.get("cardDetails")
    token = cards.token(used, "cardToken")
    if token is None or used.get("reusable") is False:
        return None
    return cards.card(used, token, NAMES, cards.expiry(used.get("expMonth"), used.get("expYear")))


def _local(moment: datetime) -> str:
    return f"{moment.astimezone(answers.LAGOS):%Y-%m-%dT%H:%M:%S}"
