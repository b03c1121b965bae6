"""Held money as the merchant sees it: what did not arrive as expected, and the outcome."""

from collections.abc import Sequence

import msgspec

from manilla.cases import suspense
from manilla.cases.suspense import Action
from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.payments.payment import Charge, ChargeStatus


class HeldMoney(msgspec.Struct, frozen=True):
    reference: str
    received: Money
    expected: Money
    outcome: Action | None  # None while under review

    @property
    def is_wrong_amount(self) -> bool:
        return self.received != self.expected


async def held_money(db: Database, charges: Sequence[Charge]) -> list[HeldMoney]:
    return [
        HeldMoney(
            reference=charge.reference,
            received=Money(charge.currency, charge.paid_minor or 0),
            expected=charge.amount,
            outcome=await suspense.released(db, charge.merchant_id, charge.reference),
        )
        for charge in charges
        if charge.status is ChargeStatus.SUSPENSE
    ]
