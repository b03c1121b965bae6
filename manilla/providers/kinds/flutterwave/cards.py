"""Charges saved cards at Flutterwave, with the email address that they were saved with."""

from typing import Any

from manilla.providers import cards, port
from manilla.providers.port import Answer, ReusableCard, WayCharge
from manilla.providers.wire import Wire

NAMES = {"brand": "type", "last4": "last_4digits"}
COUNTRY = "NG"
TEXT_LENGTH_MAX = 100
# After these errors, Flutterwave has made no charge.
NOT_CHARGED = (
    *("token not found", "invalid token", "token has expired", "wrong token or email"),
    *("card token not found", "token is required", "no token found"),
)


class FlutterwaveCards:
    def __init__(self, pay_in: Wire) -> None:
        self._pay_in = pay_in

    async def charge(self, order: port.WayOrder) -> Answer[WayCharge]:
        body = {
            "token": order.token,
            "currency": order.amount.currency,
            "country": COUNTRY,
            "amount": order.amount.amount,
            "email": order.customer_email,
            "tx_ref": order.reference,
            "narration": order.description[:TEXT_LENGTH_MAX],
        }
        decide = cards.decide(
            NOT_CHARGED, lambda data: cards.read_charge(data, "tx_ref", order.reference)
        )
        return await self._pay_in.call("POST", "/v3/tokenized-charges", decide, body=body)

    async def forget(self, token: str) -> Answer[None]:
        del token
        return cards.NO_CALL


def of_charge(data: Any) -> ReusableCard | None:
    """Returns the card of a paid charge, or None if Flutterwave has not saved it."""
    used = data.get("card")
    token = cards.token(used, "token")
    if token is None:
        return None
    month, _, year = str(used.get("expiry")).partition("/")
    return cards.card(used, token, NAMES, cards.expiry(month, year))
