"""Reads the daily totals: what was earned, what providers were paid, and what is left.

A query reads the rows of the period by their day, or of one merchant by its key. There is a row for
each merchant, method, channel and provider with transactions on a day, so the number of
transactions makes no difference.
"""

from collections.abc import Sequence
from datetime import date
from enum import StrEnum

import msgspec

from manilla.kit.clock import last_days
from manilla.kit.database.rows import RowSource
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.fields import Columns, Fields
from manilla.kit.listing import Conditions
from manilla.kit.money import Money
from manilla.platform.settings import PlatformSettings

ROWS_MAX = 100_000  # maximum number of rows that a report returns
DAYS_MAX = 3_660


class BadPeriod(Refusal):
    message = "The period must end after it starts, and cannot be longer than ten years."


class TooManyRows(Refusal):
    message = f"There are more than {ROWS_MAX:,} rows. Choose a shorter period or one merchant."


class MarginGroup(StrEnum):
    DAY = "day"
    WAY = "way"
    PROVIDER = "provider"
    MERCHANT = "merchant"
    DETAIL = "detail"  # each day, merchant, way and provider


_WAY = ("kind", "method_code", "channel", "provider")
_KEYS: dict[MarginGroup, tuple[str, ...]] = {
    MarginGroup.DAY: ("day",),
    MarginGroup.WAY: _WAY,
    MarginGroup.PROVIDER: ("provider",),
    MarginGroup.MERCHANT: ("merchant_id",),
    MarginGroup.DETAIL: ("day", "merchant_id", *_WAY),
}


class MarginFilter(msgspec.Struct, frozen=True, kw_only=True):
    since: date
    until: date  # the last day
    environment: Environment = Environment.PRODUCTION
    currency: str | None = None
    merchant_id: int | None = None
    method_code: str | None = None
    provider: str | None = None

    @property
    def days(self) -> int:
        return (self.until - self.since).days + 1

    @property
    def is_possible(self) -> bool:
        has_next_day = self.until < date.max
        return has_next_day and 0 < self.days <= DAYS_MAX

    def check(self) -> None:
        if not self.is_possible:
            raise BadPeriod

    @property
    def conditions(self) -> Conditions:
        return (
            Conditions()
            .add("day BETWEEN {} AND {}", self.since, self.until)
            .add("environment = {}", self.environment)
            .add_given("merchant_id = {}", self.merchant_id)
            .add_given("currency = {}", self.currency)
            .add_given("method_code = {}", self.method_code)
            .add_given("provider = {}", self.provider)
        )


class MarginRow(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a group. Fields that do not identify the group are None."""

    currency: str
    transactions: int  # credited payments and delivered payouts
    earned_minor: int
    paid_minor: int
    passed_minor: int  # fees of providers for disputes, which merchants' wallets paid
    day: date | None = None
    merchant_id: int | None = None
    kind: str | None = None  # payment or payout; empty: no transaction
    method_code: str | None = None
    channel: str | None = None
    provider: str | None = None

    @property
    def earned(self) -> Money:
        return Money(self.currency, self.earned_minor)

    @property
    def paid(self) -> Money:
        return Money(self.currency, self.paid_minor)

    @property
    def left(self) -> Money:
        return Money(self.currency, self.earned_minor - self.paid_minor)

    @property
    def passed(self) -> Money:
        return Money(self.currency, self.passed_minor)

    @property
    def is_loss(self) -> bool:
        return self.earned_minor < self.paid_minor


FIELDS = Fields(MarginRow)
_FIGURES = "currency transactions earned paid left passed"


def columns(by: MarginGroup) -> Columns[MarginRow]:
    """Returns the columns of exports and commands."""
    return FIELDS.select(f"{' '.join(_KEYS[by])} {_FIGURES}")


async def rows(
    db: RowSource, wanted: MarginFilter, by: MarginGroup, limit: int = ROWS_MAX
) -> list[MarginRow]:
    """Returns the totals of each group, by day, or those that lost most first.

    Raises TooManyRows if there are more than ROWS_MAX rows.
    """
    wanted.check()
    conditions, key = wanted.conditions, ", ".join(_KEYS[by])
    order = key if "day" in _KEYS[by] else f"sum(earned_minor) - sum(paid_minor), {key}"
    found = await db.rows(
        MarginRow,
        f"""
        SELECT currency, {key}, sum(transactions)::bigint AS transactions,
               sum(earned_minor)::bigint AS earned_minor, sum(paid_minor)::bigint AS paid_minor,
               sum(passed_minor)::bigint AS passed_minor
          FROM margin_day WHERE {conditions.sql}
         GROUP BY currency, {key}
        HAVING sum(transactions) <> 0 OR sum(earned_minor) <> 0 OR sum(paid_minor) <> 0
            OR sum(passed_minor) <> 0
         ORDER BY currency, {order} LIMIT {min(limit, ROWS_MAX) + 1}""",
        *conditions.values,
    )
    if len(found) > ROWS_MAX:
        raise TooManyRows
    return found


def total(currency: str, parts: Sequence[MarginRow]) -> MarginRow:
    names = ("transactions", "earned_minor", "paid_minor", "passed_minor")
    sums = {name: sum(getattr(part, name) for part in parts) for name in names}
    return MarginRow(currency=currency, **sums)


async def count_losing_ways(db: RowSource, settings: PlatformSettings) -> int:
    """Counts the ways to pay that cost more than they earned, with enough transactions."""
    if not settings.margin_alert_days:
        return 0
    days = last_days(settings.margin_alert_days)
    ways = await rows(db, MarginFilter(since=days[0], until=days[-1]), MarginGroup.WAY)
    least = settings.margin_alert_transactions
    return sum(way.is_loss and way.transactions >= least for way in ways)
