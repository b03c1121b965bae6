"""Charges saved cards at Paystack. A card is charged with the email address it was saved with."""

from datetime import date
from typing import Any

from manilla.providers import cards, port, reading, replies
from manilla.providers.port import Answer, ReusableCard, WayCharge
from manilla.providers.wire import Wire

NAMES = {"brand": "brand", "last4": "last4"}
# After these errors, Paystack has made no charge. It responds with 200 to every charge it makes.
NOT_CHARGED = (
    *("authorization code is invalid", "authorization code does not exist", "not reusable"),
    *("email does not match", "charge attempt cannot be fulfilled", "invalid email"),
    *("amount is above", "invalid amount", "currency not supported"),
)


class PaystackCards:
    def __init__(self, pay_in: Wire) -> None:
        self._pay_in = pay_in

    async def charge(self, order: port.WayOrder) -> Answer[WayCharge]:
        body = {
            "email": order.customer_email,
            "amount": order.amount.minor,
            "authorization_code": order.token,
            "reference": order.reference,
            "currency": order.amount.currency,
        }
        decide = cards.decide(NOT_CHARGED, lambda data: _charge(data, order.reference))
        path = "/transaction/charge_authorization"
        return await self._pay_in.call("POST", path, decide, body=body)

    async def forget(self, token: str) -> Answer[None]:
        body = {"authorization_code": token}
        path = "/customer/authorization/deactivate"
        return await self._pay_in.post(path, body, lambda _data: None, replies.decide_payment)


def _charge(data: Any, reference: str) -> WayCharge:
    """Parses the response. If the customer must confirm, it has no status, but a page's URL."""
    found = cards.read_charge(data, "reference", reference)
    if data.get("paused") is not True:
        reading.text(data, "status")
        return found
    return WayCharge(reading.web_address(data, "authorization_url"))


def of_charge(data: Any) -> ReusableCard | None:
    """Returns the card of a paid charge, or None if Paystack cannot charge it again."""
    used = data.get("authorization")
    token = cards.token(used, "authorization_code")
    if token is None or used.get("reusable") is not True or used.get("channel") != "card":
        return None
    return cards.card(used, token, NAMES, _expiry(used))


def _expiry(used: Any) -> date | None:
    return cards.expiry(used.get("exp_month"), used.get("exp_year"))
