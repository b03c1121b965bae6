"""How a payment is divided, and the shares that the ledger has. All amounts are in minor units."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

PROPORTIONAL = "proportional"
NONE, RELEASE = "none", "release"


@dataclass(slots=True)
class Split:
    """How a payment is divided. The owner gets what the receivers' parts leave."""

    percents: Mapping[int, str]  # by receiver
    fees: str
    hold: str | int
    shares: Mapping[int, int] = field(default_factory=dict)  # known when it is accepted
    # None: a day may have released the shares, or a request without a response.
    is_released: bool | None = False

    def __post_init__(self) -> None:
        if isinstance(self.hold, int):
            self.is_released = None

    @property
    def request(self) -> dict[str, Any]:
        receivers = [
            {"merchant_id": receiver, "percent": float(percent)}
            for receiver, percent in self.percents.items()
        ]
        return {"receivers": receivers, "fees": self.fees, "hold": self.hold}

    def divide(self, amount: int, remaining: int) -> dict[int, int]:
        """Divides what remains of an amount after commission and taxes."""
        parts = {
            receiver: int(amount * Decimal(percent) / 100)
            for receiver, percent in self.percents.items()
        }
        if self.fees == PROPORTIONAL:
            parts = {receiver: part * remaining // amount for receiver, part in parts.items()}
        return parts

    def held(self, kept: int) -> set[int]:
        """Returns what may be held of a share of which the receiver keeps this amount."""
        if self.hold == NONE or self.is_released:
            return {0}
        return {kept} if self.is_released is False else {0, kept}


@dataclass(frozen=True, slots=True)
class ShareRecord:
    """A share in the ledger."""

    merchant: int
    trx_id: str
    owner: int
    payment: str
    amount: int
    withheld: int
    returned: int
    short: int

    @property
    def kept(self) -> int:
        return self.amount - self.returned
