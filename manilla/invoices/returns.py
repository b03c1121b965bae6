"""Monthly returns of taxes: what was collected, returned and remitted, from the ledger.

The database adds up the entries, so a return of a million transactions needs no more memory.
"""

from datetime import UTC, date, datetime

import msgspec

from manilla.invoices.fees import LIVES_HERE, WAIT, bounds, check_not_archived
from manilla.invoices.invoice import MONTH_FORMAT
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import RowSource
from manilla.kit.fields import Fields
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.ledger.posting import TAX
from manilla.posting_kinds import PostingKind, kind_of


class KindSum(msgspec.Struct, frozen=True):
    """The entries of one tax, currency and kind of posting, in the month or after it."""

    account: str
    currency: str
    kind: str
    is_in_month: bool
    count: int
    collected_minor: int
    returned_minor: int  # below zero

    @property
    def minor(self) -> int:
        return self.collected_minor + self.returned_minor

    @property
    def key(self) -> tuple[str, str]:
        return self.account.removeprefix(TAX), self.currency


class TaxReturn(msgspec.Struct, frozen=True):
    """The liability of one tax and currency, at the start and the end of a month."""

    tax: str
    currency: str
    month: date
    opening_minor: int
    kinds: list[KindSum]
    is_final: bool = True  # False: the month's figures can still change

    @property
    def title(self) -> str:
        return self.tax.replace("_", " ").upper()

    @property
    def month_name(self) -> str:
        return self.month.strftime(MONTH_FORMAT)

    @property
    def opening(self) -> Money:
        return self.money(self.opening_minor)

    @property
    def collected(self) -> Money:
        return self.money(sum(each.collected_minor for each in self._charged))

    @property
    def returned(self) -> Money:
        return self.money(-sum(each.returned_minor for each in self._charged))

    @property
    def remitted(self) -> Money:
        rest = (each.minor for each in self.kinds if each.kind == PostingKind.TAX_REMITTED)
        return self.money(-sum(rest))

    @property
    def closing(self) -> Money:
        return self.money(self.opening_minor + sum(each.minor for each in self.kinds))

    @property
    def figures(self) -> list[tuple[str, Money]]:
        return [
            ("Opening liability", self.opening),
            ("Collected", self.collected),
            ("Returned", self.returned),
            ("Remitted", self.remitted),
            ("Closing liability", self.closing),
        ]

    @property
    def _charged(self) -> list[KindSum]:
        return [each for each in self.kinds if each.kind != PostingKind.TAX_REMITTED]

    def money(self, minor: int) -> Money:
        return Money(self.currency, minor)


COLUMNS = Fields(TaxReturn, month="month_name", final="is_final").select(
    "tax currency month final opening collected returned remitted closing"
)
NOT_FINAL = "These figures are not final: they can change until one hour after the month."


async def of_month(db: Database, month: date) -> list[TaxReturn]:
    """Returns the month's return of each tax and currency that has entries until its end."""
    since, until = bounds(month)
    is_final = datetime.now(UTC) >= until + WAIT
    async with db.transaction() as connection:
        # One snapshot, so that entries which are posted meanwhile are in all sums or in none.
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        await check_not_archived(connection, since)
        rows = await connection.rows(KindSum, MOVED, since, until)
        liabilities = await balances(connection)
    found = []
    for (tax, currency), liability in sorted(liabilities.items()):
        own = [row for row in rows if row.key == (tax, currency)]
        opening = liability - sum(row.minor for row in own)
        kinds = [row for row in own if row.is_in_month]
        if opening or kinds:
            found.append(TaxReturn(tax, currency, month, opening, kinds, is_final))
    return found


async def balances(
    db: RowSource, tax: str | None = None, currency: str | None = None
) -> dict[tuple[str, str], int]:
    """Returns the current liability of each tax and currency."""
    records = await db.records(
        f"""
        SELECT e.account, e.currency, sum(e.amount_minor)::bigint AS minor
          FROM entry e
         WHERE starts_with(e.account, '{TAX}') AND e.environment = 'production'
           AND {LIVES_HERE.format("e.merchant_id")}
           AND ($1::text IS NULL OR e.account = $1)
           AND ($2::text IS NULL OR e.currency = $2)
         GROUP BY e.account, e.currency""",
        *(None if tax is None else posting.tax(tax), currency),
    )
    return {
        (record["account"].removeprefix(TAX), record["currency"]): record["minor"]
        for record in records
    }


# $1: the start of a month; $2: its end. `OFFSET 0` makes the planner look up the entries of each
# posting in the index, because it can underestimate how many postings the time has.
MOVED = f"""
    SELECT e.account, e.currency, {kind_of("p.kind")} AS kind,
           p.posted_at < $2 AS is_in_month, count(*) AS count,
           coalesce(sum(e.amount_minor) FILTER (WHERE e.amount_minor > 0), 0)::bigint
           AS collected_minor,
           coalesce(sum(e.amount_minor) FILTER (WHERE e.amount_minor < 0), 0)::bigint
           AS returned_minor
      FROM posting p
     CROSS JOIN LATERAL (
           SELECT * FROM entry e
            WHERE e.merchant_id = p.merchant_id AND e.posting_id = p.id
              AND starts_with(e.account, '{TAX}')
           OFFSET 0) AS e
     WHERE p.posted_at >= $1 AND p.environment = 'production'
       AND {LIVES_HERE.format("p.merchant_id")}
     GROUP BY e.account, e.currency, {kind_of("p.kind")}, p.posted_at < $2
     ORDER BY e.account, e.currency, 3"""
