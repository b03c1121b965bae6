"""The model of prices: computes fees and taxes without the product's code.

While a change of prices is new, a process can still have the earlier prices, because its cache or
its clock is wrong. Changes start one after the other, so each process has all changes up to some
change. A quiet moment drops the prices that no wrong clock can bring back. All
amounts are in minor units.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

START_SECONDS = 6  # until then, the command that changes a price has succeeded or failed
KNOWN_SECONDS = 5  # how long after its start a change is known everywhere, without faults
SLOW_SECONDS = 7300  # more than a host's clock can be slow, so that it has earlier prices again
EVERYONE = 0
PAYMENT, PAYOUT, SETTLEMENT = "payment", "payout", "settlement"
CARD, ACCOUNT, BANK_TRANSFER = "card", "account", "bank_transfer"
GENERAL = {ACCOUNT: BANK_TRANSFER}  # A line for this way is also for the special one.
# The most that a plan of `LINES` and the taxes add to an amount: a part of it and a fixed amount.
MOST_PART, MOST_FIXED = 20, 200_00


class Terms(NamedTuple):
    percent: str
    fixed: int = 0
    waived_below: int = 0
    maximum: int = 0

    def parts(self, amount: int) -> tuple[tuple[str, int], ...]:
        found = {"percent": percent_of(amount, self.percent), "fixed": self.fixed}
        found["waiver"] = -self.fixed if amount < self.waived_below else 0
        above = sum(found.values()) - (self.maximum or 10**15)
        found["cap"] = -max(above, 0)
        return tuple((kind, minor) for kind, minor in found.items() if minor)


# What versions of a plan contain. All lines of a direction differ in their percentage, so the line
# in a response determines what the customer's way to pay costs.
LINES: list[dict[tuple[str, str], Terms]] = [
    {
        (PAYMENT, ""): Terms("1.4", 20_00, 1000_00, 60_00),
        (PAYMENT, "hosted"): Terms("1.1", 5_00),
        (PAYMENT, CARD): Terms("1.2", 7_00),
        (PAYMENT, ACCOUNT): Terms("0.6", 10_00),
        (PAYOUT, ""): Terms("0", 12_00),
        (SETTLEMENT, ""): Terms("0", 6_00),
    },
    {
        (PAYMENT, ""): Terms("2.9", 90_00, 2500_00, 200_00),
        (PAYMENT, "hosted"): Terms("2.35", 50_00, 2500_00, 120_00),
        (PAYOUT, ""): Terms("0.25", 20_00, 300_00, 28_00),
        (SETTLEMENT, ""): Terms("0.1", maximum=50_00),
    },
    {
        (PAYMENT, "hosted"): Terms("0.7"),
        (PAYMENT, BANK_TRANSFER): Terms("0.8", 2_50),
        (PAYMENT, ""): Terms("1.9", maximum=75_05),
    },
    {(PAYOUT, ""): Terms("0.33", 7_77)},
]


class Tax(NamedTuple):
    """A tax on the fee is a percentage, and a tax on the transfer is a fixed amount."""

    directions: str
    percent: str = ""
    fixed: int = 0
    threshold: int = 0
    borne_by: str = "payer"
    returned: bool = True


VAT, LEVY, DUTY = "vat", "levy", "duty"
KEPT = LEVY  # the tax that a failed payout does not return
ALL = f"{PAYMENT} {PAYOUT} {SETTLEMENT}"
LEVY_ON = f"{PAYOUT} {SETTLEMENT}"
TAXES: list[tuple[str, Tax]] = [
    (VAT, Tax(ALL, "7.5")),
    (VAT, Tax(ALL, "10", borne_by="merchant")),
    (VAT, Tax(ALL)),
    (LEVY, Tax(LEVY_ON, fixed=50_00, threshold=1000_00, borne_by="merchant", returned=False)),
    (LEVY, Tax(LEVY_ON, fixed=30_00, threshold=300_00, returned=False)),
    (LEVY, Tax(LEVY_ON, returned=False)),
    (DUTY, Tax(PAYMENT, fixed=15_00, threshold=2000_00, borne_by="merchant")),
    (DUTY, Tax(PAYMENT, fixed=25_00, threshold=3000_00)),
]


@dataclass(frozen=True)
class Price:
    """A fee, its parts (without a plan: none) and its taxes: name, amount and bearer."""

    fee: int
    parts: tuple[tuple[str, int], ...]
    taxes: tuple[tuple[str, int, str], ...]

    @staticmethod
    def of_response(info: Mapping[str, Any], fee: str) -> "Price":
        parts = [
            (each["kind"], _minor(each["amount"])) for each in info.get("commission_parts", ())
        ]
        taxes = [
            (each["name"], _minor(each["amount"]), each["borne_by"])
            for each in info.get("taxes", ())
        ]
        return Price(_minor(info[fee]), tuple(parts), tuple(taxes))

    @staticmethod
    def of_row(row: Mapping[str, Any]) -> "Price":
        stored = json.loads(row["price"] or "{}")
        parts = [(each["kind"], each["minor"]) for each in stored.get("parts", ())]
        taxes = [
            (each["name"], each["minor"], each["borne_by"]) for each in stored.get("taxes", ())
        ]
        return Price(row["fee_minor"], tuple(parts), tuple(taxes))

    def added(self, bearer: str) -> int:
        return sum(minor for _, minor, borne_by in self.taxes if borne_by == bearer)

    @property
    def kept(self) -> int:
        """What a failed payout does not return."""
        return sum(minor for name, minor, _ in self.taxes if name == KEPT)


@dataclass(frozen=True)
class Book:
    """Plans and taxes."""

    # By merchant and plan. A merchant's exceptions are its plan `own`.
    plans: Mapping[tuple[int, str], int] = field(default_factory=dict)
    assigned: Mapping[int, str] = field(default_factory=dict)
    taxes: Mapping[str, Tax] = field(default_factory=dict)

    def price(
        self,
        merchant: int,
        direction: str,
        amount: int,
        payer: str,
        other: Terms,
        way: str = "",
    ) -> Price:
        terms = self._terms(merchant, direction, way)
        parts = terms.parts(amount) if terms else ()
        fee = sum(minor for _, minor in parts or (() if terms else other.parts(amount)))
        taxes = [
            (name, minor, payer if tax.borne_by == "payer" else tax.borne_by)
            for name, tax in sorted(self.taxes.items())
            if direction in tax.directions.split() and (minor := _tax(tax, amount, fee))
        ]
        return Price(fee, parts, tuple(taxes))

    def _terms(self, merchant: int, direction: str, way: str) -> Terms | None:
        plan = self.assigned.get(merchant) or self.assigned.get(EVERYONE, "")
        for key in ((merchant, "own"), (EVERYONE, plan)):
            lines = LINES[self.plans[key]] if key in self.plans else {}
            if (direction, "") in lines:
                ways = (way, GENERAL.get(way, way), "")
                return next(lines[direction, each] for each in ways if (direction, each) in lines)
        return None


class Prices:
    """The prices that can be in force, oldest first."""

    def __init__(self) -> None:
        self.books = [Book()]
        self._starts = [0.0]  # when each of the books started, at the latest
        self.have_changed = False
        self._last_start = 0.0

    def change(self, **changed: Mapping[Any, Any]) -> None:
        """Records that a change may be in force from now on."""
        self.have_changed = True
        now: Any = self.books[-1]
        merged = {name: {**getattr(now, name), **value} for name, value in changed.items()}
        self.books.append(replace(now, **merged))
        self._starts.append(float("inf"))

    def next_start(self) -> str:
        """Returns when a change starts, which is later than the starts of all other changes."""
        self._last_start = max(time.time(), self._last_start) + START_SECONDS
        self._starts[-1] = self._last_start
        return datetime.fromtimestamp(self._last_start, UTC).isoformat()

    @property
    def have_started(self) -> bool:
        return time.time() > self._last_start + KNOWN_SECONDS

    def settle(self) -> None:
        passed = sum(start < time.time() - SLOW_SECONDS for start in self._starts)
        del self.books[: passed - 1], self._starts[: passed - 1]

    def matching(self, price: Price, *about: Any) -> Iterator[Book]:
        """Yields the books with which the model computes this price."""
        return (book for book in self.books if book.price(*about) == price)


def percent_of(amount: int, percent: str) -> int:
    return int((amount * Decimal(percent) / 100).quantize(Decimal(1), ROUND_HALF_UP))


def _tax(tax: Tax, amount: int, fee: int) -> int:
    if tax.percent:
        return percent_of(fee, tax.percent)
    return tax.fixed if amount >= tax.threshold else 0


def _minor(amount: Any) -> int:
    return int((Decimal(str(amount)) * 100).to_integral_exact())
