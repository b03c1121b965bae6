"""Lists the changes to a wallet's balance."""

from collections.abc import Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import asdict

from manilla.kit.database.rows import Reads, columns
from manilla.kit.listing import (
    INTEGER_MAX,
    PAGE_ROWS,
    PAGE_ROWS_MAX,
    Conditions,
    Page,
    chunks,
    search_text,
)
from manilla.kit.listing.sorting import AmountFilter, Selection, Totals
from manilla.kit.money import Money
from manilla.ledger import posting_rows
from manilla.ledger.posting_rows import PostingRow
from manilla.ledger.scope import Tenant
from manilla.posting_kinds import PostingFlag, kinds_with

NOTED = frozenset(kinds_with(PostingFlag.PUBLIC_REASON))
ENTRIES = "entry e JOIN posting p ON p.merchant_id = e.merchant_id AND p.id = e.posting_id"


class StatementFilter(AmountFilter, frozen=True, kw_only=True):
    """The filters of a wallet statement. The amount limits apply to both credits and debits."""

    kind: str | None = None
    search: str | None = None  # an exact trx_id or charge reference
    named: tuple[str, ...] = ()  # ids of related transactions that the search also matches


class WalletStatementLine(PostingRow, frozen=True):
    """A change to a wallet's balance, with the new balance."""

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


class _WalletEntry(msgspec.Struct, frozen=True):
    posting_id: int
    amount_minor: int
    balance_minor: int


async def lines(
    db: Reads,
    tenant: Tenant,
    currency: str,
    wanted: StatementFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[WalletStatementLine]:
    """Returns one page of the wallet's statement, newest first."""
    limit = min(limit, PAGE_ROWS_MAX)
    low, before = await posting_rows.id_bounds(db, wanted, after)
    searched = await _searched_ids(db, tenant, wanted)

    async def read(before: int, count: int) -> tuple[list[int], list[WalletStatementLine]]:
        about = _of_wallet(tenant, currency, low, before, searched)
        entries = await db.rows(
            _WalletEntry,
            f"""
            SELECT {columns(_WalletEntry)} FROM entry e
             WHERE {about.sql} ORDER BY posting_id DESC LIMIT {count}""",
            *about.values,
        )
        ids = [entry.posting_id for entry in entries]
        return ids, await _matching_lines(db, tenant, wanted, ids, entries)

    is_filtered = wanted != StatementFilter()
    return await chunks.page(read, attrgetter("id"), before, limit, is_filtered=is_filtered)


async def totals(db: Reads, tenant: Tenant, currency: str, wanted: StatementFilter) -> Totals:
    """Returns the number of entries in the wallet statement, and their sums."""
    about = await entries_wanted(db, tenant, currency, wanted)
    with_postings = wanted.kind or wanted.since or wanted.until
    table = ENTRIES if with_postings else "entry e"
    return await Selection(table, "", {}, about, amounts="e.currency, e.amount_minor").totals(db)


async def entries_wanted(
    db: Reads, tenant: Tenant, currency: str, wanted: StatementFilter
) -> Conditions:
    """Returns the conditions for the wallet entries `e`, and for their postings `p`."""
    low, before = await posting_rows.id_bounds(db, wanted)
    searched = await _searched_ids(db, tenant, wanted)
    conditions = (
        _of_wallet(tenant, currency, low, before, searched)
        .add_given("abs(e.amount_minor) >= {}", wanted.min_minor)
        .add_given("abs(e.amount_minor) <= {}", wanted.max_minor)
    )
    return posting_rows.add_kind_and_period(conditions, wanted.kind, wanted)


def _of_wallet(
    tenant: Tenant, currency: str, low: int, before: int, ids: Sequence[int] | None
) -> Conditions:
    """Returns the conditions for the wallet's entries `e`, which one index covers."""
    return (
        Conditions()
        .add("e.merchant_id = {} AND e.environment = {}", tenant.merchant_id, tenant.environment)
        .add("e.currency = {} AND e.account = 'wallet'", currency)
        .add("e.posting_id >= {} AND e.posting_id < {}", low, before)
        .add_given("e.posting_id = ANY({}::bigint[])", ids)
    )


async def _searched_ids(db: Reads, tenant: Tenant, wanted: StatementFilter) -> list[int] | None:
    """Returns the ids of the postings that the search matches, or None without a search."""
    search = search_text(wanted.search)
    if search is None:
        return None
    return await posting_rows.ids_of(db, tenant.merchant_id, [search, *wanted.named])


async def _matching_lines(
    db: Reads,
    tenant: Tenant,
    wanted: StatementFilter,
    ids: Sequence[int],
    entries: Sequence[_WalletEntry],
) -> list[WalletStatementLine]:
    lowest = wanted.min_minor or 0
    highest = INTEGER_MAX if wanted.max_minor is None else wanted.max_minor
    conditions = Conditions().add("p.merchant_id = {}", tenant.merchant_id)
    posting_rows.add_kind_and_period(conditions, wanted.kind, wanted)
    postings = {each.id: each for each in await posting_rows.with_ids(db, ids, conditions)}
    return [
        WalletStatementLine(
            **asdict(postings[entry.posting_id]),
            amount_minor=entry.amount_minor,
            balance_minor=entry.balance_minor,
        )
        for entry in entries
        if entry.posting_id in postings and lowest <= abs(entry.amount_minor) <= highest
    ]
