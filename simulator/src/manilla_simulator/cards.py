"""Simulates saved cards: a paid card leaves a token, with which the platform charges it again."""

from datetime import timedelta
from enum import StrEnum

import msgspec

from manilla_simulator import charges
from manilla_simulator.charges import Order
from manilla_simulator.provider import Provider
from manilla_simulator.state import Card, Charge, now

BRAND, LAST4, EXPIRES = "verve", "4081", (12, 2031)
CONFIRM_MINUTES = 30


class CardOutcome(StrEnum):
    """What the customer's bank does with charges of a saved card."""

    SUCCESS = "success"
    DECLINED = "declined"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    EXPIRED = "expired"
    CONFIRM = "confirm"  # The customer must confirm the charge, if the provider supports this.
    REGULATED = "regulated"  # The card was declined too often, and must wait.
    PENDING = "pending"  # The bank does not respond.


REASONS = {
    CardOutcome.DECLINED: charges.DECLINED,
    CardOutcome.INSUFFICIENT_FUNDS: charges.INSUFFICIENT_FUNDS,
    CardOutcome.EXPIRED: "expired_card",
}


class CardChange(msgspec.Struct, forbid_unknown_fields=True):
    outcome: CardOutcome | None = None
    exp_month: int | None = None
    exp_year: int | None = None
    reusable: bool | None = None


def save(provider: Provider, charge: Charge, prefix: str = "AUTH_") -> Card:
    """Returns the card that a charge was paid with. Each charge leaves a token of its own."""
    if charge.card is None:
        month, year = EXPIRES
        charge.card = Card(
            reference=f"{prefix}{charge.token[:20]}",
            email=charge.customer_email,
            brand=BRAND,
            last4=LAST4,
            exp_month=month,
            exp_year=year,
        )
        provider.cards.put(charge.card)
    return charge.card


def change(card: Card, wanted: CardChange) -> Card:
    for name in wanted.__struct_fields__:
        value = getattr(wanted, name)
        if value is not None:
            setattr(card, name, value)
    return card


def charge_again(provider: Provider, card: Card, order: Order, *, confirms: bool = False) -> Charge:
    """Charges a saved card. The result is in the charge, whether the bank pays or declines it."""
    limit = now() + timedelta(minutes=CONFIRM_MINUTES)
    charge = charges.open_charge(provider, msgspec.structs.replace(order, expires_at=limit))
    charge.card = card
    charge.is_hosted = card.outcome == CardOutcome.CONFIRM and confirms
    if charge.is_hosted or card.outcome == CardOutcome.PENDING:
        return charge
    reason = REASONS.get(CardOutcome(_outcome(card)))
    if reason is None:
        charges.pay(provider, charge)
    else:
        charges.decline(provider, charge, reason)
    return charge


def _outcome(card: Card) -> str:
    moment = now()
    is_over = (card.exp_year, card.exp_month) < (moment.year, moment.month)
    return CardOutcome.EXPIRED if is_over else card.outcome
