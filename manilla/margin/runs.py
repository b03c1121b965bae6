"""Compares what transactions were charged, or what providers took, with computed prices.

Nothing is written. A run ends early at a maximum number of transactions or seconds, and says so.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable

import msgspec

from manilla.kit import deadline
from manilla.kit.fields import Fields
from manilla.kit.money import Money
from manilla.margin.transactions import Traded, TradedTransaction

# What a transaction costs by a plan, or None if the plan has no line for it.
Computed = Callable[[TradedTransaction], int | None]
Actual = Callable[[TradedTransaction], int | None]


class RunLimit(msgspec.Struct, frozen=True):
    transactions: int
    seconds: float


class ComparedWay(msgspec.Struct, frozen=True, kw_only=True):
    """The transactions of a merchant, or of all merchants, in one way to pay."""

    merchant_id: int | None
    kind: Traded
    method_code: str
    channel: str
    provider: str
    currency: str
    transactions: int = 0
    compared: int = 0  # the transactions of which both amounts are known
    amount_minor: int = 0
    actual_minor: int = 0
    difference_minor: int = 0  # of the compared transactions: computed minus actual

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def actual(self) -> Money:
        return Money(self.currency, self.actual_minor)

    @property
    def computed(self) -> Money:
        """The computed amounts. A transaction that was not compared keeps its actual amount."""
        return Money(self.currency, self.actual_minor + self.difference_minor)

    @property
    def difference(self) -> Money:
        return Money(self.currency, self.difference_minor)

    @property
    def unknown(self) -> int:
        return self.transactions - self.compared


class Run(msgspec.Struct, frozen=True):
    rows: list[ComparedWay]
    transactions: int  # how many were read
    is_complete: bool

    def sums(self) -> list[ComparedWay]:
        """Returns the sum of all rows in each currency."""
        sums: dict[str, ComparedWay] = {}
        for row in self.rows:
            sums[row.currency] = _added(sums.get(row.currency), row)
        return [sums[currency] for currency in sorted(sums)]


_WAY = "kind method_code channel provider currency transactions unknown amount"
# The columns of exports and commands.
TRIED = Fields(ComparedWay, charged="actual", planned="computed").select(
    f"merchant_id {_WAY} charged planned difference"
)
FEES = Fields(ComparedWay, taken="actual", expected="computed").select(
    f"{_WAY} taken expected difference"
)
_NUMBERS = ("transactions", "compared", "amount_minor", "actual_minor", "difference_minor")


async def compare(
    pages: AsyncIterator[list[TradedTransaction]],
    is_wanted: Callable[[TradedTransaction], bool],
    actual: Actual,
    computed: Computed,
    limit: RunLimit,
    *,
    by_merchant: bool = True,
) -> Run:
    """Compares all wanted transactions of the pages, up to the limit."""
    sums: dict[tuple[object, ...], ComparedWay] = {}
    ends_at, read = time.monotonic() + limit.seconds, 0
    async for found in pages:
        for each in filter(is_wanted, found):
            row = _row(each, actual(each), computed(each), by_merchant=by_merchant)
            key = (row.merchant_id, row.kind, row.method_code, row.channel, row.provider)
            sums[*key, row.currency] = _added(sums.get((*key, row.currency)), row)
        read += len(found)
        if read >= limit.transactions or time.monotonic() >= ends_at:
            return Run(_sorted(sums.values()), read, is_complete=False)
        deadline.renew()  # the limit of this run counts
        await asyncio.sleep(0)  # other requests of this process continue
    return Run(_sorted(sums.values()), read, is_complete=True)


def _row(
    each: TradedTransaction, actual: int | None, computed: int | None, *, by_merchant: bool
) -> ComparedWay:
    is_compared = actual is not None and computed is not None
    return ComparedWay(
        merchant_id=each.merchant_id if by_merchant else None,
        kind=each.kind,
        method_code=each.method_code,
        channel=each.channel or "",
        provider=each.provider or "",
        currency=each.currency,
        transactions=1,
        compared=int(is_compared),
        amount_minor=each.amount_minor,
        actual_minor=actual or 0,
        difference_minor=computed - actual if computed is not None and actual is not None else 0,
    )


def _added(before: ComparedWay | None, row: ComparedWay) -> ComparedWay:
    if before is None:
        return row
    sums = {name: getattr(before, name) + getattr(row, name) for name in _NUMBERS}
    return msgspec.structs.replace(before, **sums)


def _sorted(rows: Iterable[ComparedWay]) -> list[ComparedWay]:
    """Returns the rows whose amounts differ most first."""
    return sorted(rows, key=lambda row: (row.currency, -abs(row.difference_minor), str(row)))
