"""Lists a wallet's statement, and postings with their entries."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from manilla.kit import listing
from manilla.kit.database.rows import Reads, columns
from manilla.kit.fields import Fields
from manilla.kit.listing import INTEGER_MAX, PAGE_ROWS, PAGE_ROWS_MAX, Conditions, Page
from manilla.kit.listing.sorting import AmountFilter, RecordFilter, Selection, Totals
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.ledger.scope import Scope, Tenant, scope_conditions
from manilla.posting_kinds import (
    PostingFlag,
    PostingKind,
    PostingSource,
    in_sql,
    kind_of,
    kinds_of,
    kinds_with,
    part_of,
)

LOOK_MAX = 10_000  # maximum number of rows read for one page
CHUNK_MAX = 1_000
CLOSE = 20
# If a page's first and last posting ids differ by less than this, the whole range is read.
NEAR_MAX = 20_000
# A posting gets its id slightly after its timestamp.
# The orders of ids and of timestamps can therefore differ by this much.
ASTRAY = timedelta(minutes=5)


# The reason of a payout's posting is the digest of its destination, which only checks read.
_COLUMNS = f"""
    {kind_of("kind")} AS kind, trx_id, posted_at,
    CASE WHEN {kind_of("kind")} IN {in_sql(kinds_of(PostingSource.CASE))}
         THEN nullif({part_of("kind")}, '') END AS rail,
    CASE WHEN kind <> '{PostingKind.PAYOUT}' THEN reason END AS reason"""
NOTED = frozenset(kinds_with(PostingFlag.PUBLIC_REASON))
ENTRIES = "entry e JOIN posting p ON p.merchant_id = e.merchant_id AND p.id = e.posting_id"


class StatementFilter(AmountFilter, frozen=True, kw_only=True):
    """The filters of a wallet statement. The amount limits apply to both credits and debits."""

    kind: str | None = None
    search: str | None = None  # an exact trx_id or charge reference
    named: tuple[str, ...] = ()  # ids of related transactions that the search also matches


class WalletStatementLine(msgspec.Struct, frozen=True):
    """A change to a wallet's balance, with the new balance."""

    posting_id: int
    posted_at: datetime
    kind: str
    rail: str | None  # the earlier rail that a payout's case is about; merchants must not see it
    trx_id: str
    reason: str | None
    currency: str
    amount_minor: int
    balance_minor: int

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def balance(self) -> Money:
        return Money(self.currency, self.balance_minor)

    @property
    def note(self) -> str | None:
        """The reason, if merchants may see it."""
        return self.reason if self.kind in NOTED else None


class PostingFilter(RecordFilter, frozen=True, kw_only=True):
    kind: str | None = None
    currency: str | None = None
    search: str | None = None  # an exact trx_id or charge reference


class EntryLine(msgspec.Struct, frozen=True):
    account: str
    amount_minor: int
    balance_minor: int | None  # the balance after the entry, only for wallet entries


class PostingLine(msgspec.Struct, frozen=True):
    merchant_id: int
    id: int
    environment: str
    currency: str
    kind: str
    rail: str | None  # the earlier rail that a payout's case is about
    trx_id: str
    reason: str | None
    posted_at: datetime
    entries: list[EntryLine]


class PostedEntry(msgspec.Struct, frozen=True):
    posting: PostingLine
    entry: EntryLine

    @property
    def amount(self) -> Money:
        return Money(self.posting.currency, self.entry.amount_minor)

    @property
    def balance(self) -> Money | None:
        minor = self.entry.balance_minor
        return None if minor is None else Money(self.posting.currency, minor)


ENTRY_FIELDS = Fields(PostingLine).inside(
    PostedEntry, "posting", posting="posting.id", account="entry.account"
)


def posted_entries(postings: Iterable[PostingLine]) -> list[PostedEntry]:
    return [PostedEntry(posting, entry) for posting in postings for entry in posting.entries]


class _WalletEntry(msgspec.Struct, frozen=True):
    posting_id: int
    amount_minor: int
    balance_minor: int


async def statement(
    db: Reads,
    tenant: Tenant,
    currency: str,
    wanted: StatementFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[WalletStatementLine]:
    limit = min(limit, PAGE_ROWS_MAX)
    high = listing.read_cursor(int, after) or await _first_number(db, wanted.until, ASTRAY)
    low = await _first_number(db, wanted.since, -ASTRAY) if wanted.since else 0
    search = listing.search_text(wanted.search)
    numbers = (
        None
        if search is None
        else await _numbers_of(db, tenant.merchant_id, [search, *wanted.named])
    )
    chunk = limit if wanted == StatementFilter() else CHUNK_MAX
    lines: list[WalletStatementLine] = []
    looked = 0
    while looked < LOOK_MAX:
        entries = await _wallet_entries(db, tenant, currency, low, high, numbers, chunk)
        found = await _with_postings(db, tenant.merchant_id, currency, entries)
        lines += [line for line in found if _is_wanted(line, wanted)]
        if len(lines) >= limit:
            return Page(lines[:limit], listing.cursor(lines[limit - 1].posting_id))
        if len(entries) < chunk:
            return Page(lines)
        high, looked = entries[-1].posting_id, looked + len(entries)
    return Page(lines, listing.cursor(high))


async def statement_totals(
    db: Reads, tenant: Tenant, currency: str, wanted: StatementFilter
) -> Totals:
    """Returns the number of entries in the wallet statement, and their sums."""
    about = await entries_wanted(db, tenant, currency, wanted)
    with_postings = wanted.kind or wanted.since or wanted.until
    table = ENTRIES if with_postings else "entry e"
    return await Selection(table, "", {}, about, amounts="e.currency, e.amount_minor").totals(db)


async def entries_wanted(
    db: Reads, tenant: Tenant, currency: str, wanted: StatementFilter
) -> Conditions:
    """Returns the conditions for the wallet entries `e`, and for their postings `p`."""
    search = listing.search_text(wanted.search)
    numbers = search and await _numbers_of(db, tenant.merchant_id, [search, *wanted.named])
    low = await _first_number(db, wanted.since, -ASTRAY) if wanted.since else None
    high = await _first_number(db, wanted.until, ASTRAY) if wanted.until else None
    return (
        Conditions()
        .add("e.merchant_id = {} AND e.environment = {}", tenant.merchant_id, tenant.environment)
        .add("e.currency = {} AND e.account = 'wallet'", currency)
        .add_given("e.posting_id >= {}", low)
        .add_given("e.posting_id < {}", high)
        .add_given("e.posting_id = ANY({}::bigint[])", numbers)
        .add_given("abs(e.amount_minor) >= {}", wanted.min_minor)
        .add_given("abs(e.amount_minor) <= {}", wanted.max_minor)
        .add_given(f"{kind_of('p.kind')} = {{}}", wanted.kind)
        .add_given("p.posted_at >= {}", wanted.since)
        .add_given("p.posted_at < {}", wanted.until)
    )


async def postings(
    db: Reads,
    scope: Scope,
    wanted: PostingFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[PostingLine]:
    limit = min(limit, PAGE_ROWS_MAX)
    conditions = (
        scope_conditions(scope)
        .add_given(f"{kind_of('kind')} = {{}}", wanted.kind)
        .add_given("currency = {}", wanted.currency)
        .add_given("posted_at >= {}", wanted.since)
        .add_given("posted_at < {}", wanted.until)
    )
    search = listing.search_text(wanted.search)
    if search is not None:
        conditions.add("merchant_id = {}", trx_ids.merchant_of(search.partition("-")[0]))
        conditions.add("trx_id = {}", search)
        return Page(await _postings(db, conditions, PAGE_ROWS_MAX))
    high = listing.read_cursor(int, after) or await _first_number(db, wanted.until, ASTRAY)
    low = await _first_number(db, wanted.since, -ASTRAY) if wanted.since else 0
    chunk = limit if wanted == PostingFilter() else CHUNK_MAX
    rows: list[PostingLine] = []
    looked = 0
    while looked < LOOK_MAX:
        numbers = await _numbers(db, scope.merchant_id, low, high, chunk)
        if not numbers:
            return Page(rows)
        rows += await _postings(db, _numbered(conditions, numbers), limit - len(rows))
        if len(rows) == limit:
            return Page(rows, listing.cursor(rows[-1].id))
        high, looked = numbers[-1], looked + len(numbers)
    return Page(rows, listing.cursor(high))


async def postings_of(db: Reads, merchant_id: int, references: Sequence[str]) -> list[PostingLine]:
    """Returns all postings for these transaction ids and charge references, oldest first."""
    conditions = (
        Conditions()
        .add("merchant_id = {}", merchant_id)
        .add("trx_id = ANY({}::text[])", list(references))
    )
    return (await _postings(db, conditions, PAGE_ROWS_MAX))[::-1]


async def _postings(db: Reads, conditions: Conditions, limit: int) -> list[PostingLine]:
    heads = await db.records(
        f"""
        SELECT merchant_id, id, environment, currency, {_COLUMNS}
          FROM posting
         WHERE {conditions.sql} ORDER BY id DESC LIMIT {limit}""",
        *conditions.values,
    )
    entries = await db.records(
        """
        SELECT e.posting_id, e.account, e.amount_minor, e.balance_minor
          FROM unnest($1::bigint[], $2::bigint[]) AS p (merchant_id, id)
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
         ORDER BY e.posting_id, e.line""",
        [head["merchant_id"] for head in heads],
        [head["id"] for head in heads],
    )
    by_posting: dict[int, list[EntryLine]] = {head["id"]: [] for head in heads}
    for entry in entries:
        line = EntryLine(entry["account"], entry["amount_minor"], entry["balance_minor"])
        by_posting[entry["posting_id"]].append(line)
    return [PostingLine(**head, entries=by_posting[head["id"]]) for head in heads]


async def _numbers(
    db: Reads, merchant_id: int | None, low: int, high: int, limit: int
) -> list[int]:
    """Returns the posting ids of one merchant, or of all merchants, in descending order."""
    if merchant_id is None:
        last: int = await db.value("SELECT coalesce(pg_sequence_last_value('posting_id_seq'), 0)")
        highest = min(high - 1, last)
        return list(range(highest, max(low - 1, highest - limit, 0), -1))
    records = await db.records(
        """
        SELECT DISTINCT posting_id FROM entry
         WHERE merchant_id = $1 AND posting_id >= $2 AND posting_id < $3
         ORDER BY posting_id DESC LIMIT $4""",
        *(merchant_id, low, high, limit),
    )
    return [record["posting_id"] for record in records]


def _numbered(conditions: Conditions, numbers: Sequence[int]) -> Conditions:
    """Adds a condition for these posting ids, which are in descending order.

    If the ids are close together, the condition selects the whole range, which is faster.
    """
    if numbers[0] - numbers[-1] < CLOSE * len(numbers):
        return conditions.copy().add("id >= {} AND id <= {}", numbers[-1], numbers[0])
    return conditions.copy().add("id = ANY({}::bigint[])", numbers)


async def _first_number(db: Reads, moment: datetime | None, slack: timedelta) -> int:
    """Returns the id of the first posting at or after this time, or INTEGER_MAX if none exists."""
    if moment is None:
        return INTEGER_MAX
    start, span = moment + slack, timedelta(hours=1)
    while start < datetime.now(UTC):
        number: int | None = await db.value(
            "SELECT min(id) FROM posting WHERE posted_at >= $1 AND posted_at < $2",
            *(start, start + span),
        )
        if number is not None:
            return number
        start, span = start + span, span * 8
    return INTEGER_MAX


async def _wallet_entries(
    db: Reads,
    tenant: Tenant,
    currency: str,
    low: int,
    high: int,
    numbers: Sequence[int] | None,
    limit: int,
) -> list[_WalletEntry]:
    conditions = (
        scope_conditions(tenant)
        .add("currency = {}", currency)
        .add("posting_id >= {} AND posting_id < {}", low, high)
        .add_given("posting_id = ANY({}::bigint[])", numbers)
    )
    return await db.rows(
        _WalletEntry,
        f"""
        SELECT {columns(_WalletEntry)} FROM entry
         WHERE account = 'wallet' AND {conditions.sql}
         ORDER BY posting_id DESC LIMIT {limit}""",
        *conditions.values,
    )


async def _with_postings(
    db: Reads, merchant_id: int, currency: str, entries: Sequence[_WalletEntry]
) -> list[WalletStatementLine]:
    if not entries:
        return []
    numbers = [entry.posting_id for entry in entries]
    heads = {head["id"]: head for head in await _heads(db, merchant_id, numbers)}
    return [
        WalletStatementLine(
            posting_id=entry.posting_id,
            posted_at=head["posted_at"],
            kind=head["kind"],
            rail=head["rail"],
            trx_id=head["trx_id"],
            reason=head["reason"],
            currency=currency,
            amount_minor=entry.amount_minor,
            balance_minor=entry.balance_minor,
        )
        for entry in entries
        for head in (heads[entry.posting_id],)
    ]


async def _heads(db: Reads, merchant_id: int, numbers: Sequence[int]) -> list[Any]:
    """Reads the merchant's postings with these ids, which are in descending order."""
    head = f"SELECT id, {_COLUMNS}"
    if numbers[0] - numbers[-1] >= NEAR_MAX:
        return await db.records(
            f"{head} FROM posting WHERE merchant_id = $1 AND id = ANY($2::bigint[])",
            *(merchant_id, numbers),
        )
    # OFFSET 0 makes the planner start with the ids instead of all of the merchant's postings.
    async with db.by_key() as connection:
        return await connection.records(
            f"""
            {head} FROM (SELECT * FROM posting WHERE id BETWEEN $2 AND $3 OFFSET 0) AS near
             WHERE merchant_id = $1""",
            *(merchant_id, numbers[-1], numbers[0]),
        )


async def _numbers_of(db: Reads, merchant_id: int, references: Sequence[str]) -> list[int]:
    records = await db.records(
        "SELECT id FROM posting WHERE merchant_id = $1 AND trx_id = ANY($2::text[])",
        *(merchant_id, list(references)),
    )
    return [record["id"] for record in records]


def _is_wanted(line: WalletStatementLine, wanted: StatementFilter) -> bool:
    return (
        wanted.kind in (None, line.kind)
        and (wanted.since is None or line.posted_at >= wanted.since)
        and (wanted.until is None or line.posted_at < wanted.until)
        and (wanted.min_minor is None or abs(line.amount_minor) >= wanted.min_minor)
        and (wanted.max_minor is None or abs(line.amount_minor) <= wanted.max_minor)
    )
