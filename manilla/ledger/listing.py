"""Lists postings with their entries."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from manilla.kit.database.rows import Reads
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, PAGE_ROWS_MAX, Conditions, Page, chunks, search_text
from manilla.kit.listing.sorting import RecordFilter
from manilla.kit.money import Money
from manilla.ledger import posting_rows, trx_ids
from manilla.ledger.posting_rows import PostingRow
from manilla.ledger.scope import Scope, scope_conditions


class PostingFilter(RecordFilter, frozen=True, kw_only=True):
    kind: str | None = None
    currency: str | None = None
    search: str | None = None  # an exact trx_id or charge reference


class EntryLine(msgspec.Struct, frozen=True):
    account: str
    amount_minor: int
    balance_minor: int | None  # the balance after the entry, only for wallet entries


class PostingLine(PostingRow, frozen=True):
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


async def postings(
    db: Reads,
    scope: Scope,
    wanted: PostingFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[PostingLine]:
    """Returns one page of postings, newest first."""
    limit = min(limit, PAGE_ROWS_MAX)
    conditions = scope_conditions(scope).add_given("currency = {}", wanted.currency)
    posting_rows.add_kind_and_period(conditions, wanted.kind, wanted)
    search = search_text(wanted.search)
    if search is not None:
        conditions.add("merchant_id = {}", trx_ids.merchant_of(search.partition("-")[0]))
        conditions.add("trx_id = {}", search)
        found = await posting_rows.newest(db, conditions, PAGE_ROWS_MAX)
        return Page(await _with_entries(db, found))
    low, before = await posting_rows.id_bounds(db, wanted, after)

    async def read(before: int, count: int) -> tuple[Sequence[int], list[PostingRow]]:
        ids = await _ids(db, scope.merchant_id, low, before, count)
        return ids, await posting_rows.with_ids(db, ids, conditions, limit)

    is_filtered = wanted != PostingFilter()
    page = await chunks.page(read, attrgetter("id"), before, limit, is_filtered=is_filtered)
    return Page(await _with_entries(db, page.rows), page.next)


async def _ids(
    db: Reads, merchant_id: int | None, low: int, before: int, count: int
) -> Sequence[int]:
    """Returns the posting ids of one merchant, or of all merchants, in descending order."""
    if merchant_id is None:
        last = await db.number("SELECT coalesce(pg_sequence_last_value('posting_id_seq'), 0)")
        highest = min(before - 1, last)
        return range(highest, max(low - 1, highest - count, 0), -1)
    records = await db.records(
        """
        SELECT DISTINCT posting_id FROM entry
         WHERE merchant_id = $1 AND posting_id >= $2 AND posting_id < $3
         ORDER BY posting_id DESC LIMIT $4""",
        *(merchant_id, low, before, count),
    )
    return [record["posting_id"] for record in records]


async def postings_of(db: Reads, merchant_id: int, references: Sequence[str]) -> list[PostingLine]:
    """Returns all postings for these transaction ids and charge references, oldest first."""
    conditions = (
        Conditions()
        .add("merchant_id = {}", merchant_id)
        .add("trx_id = ANY({}::text[])", list(references))
    )
    found = await posting_rows.newest(db, conditions, PAGE_ROWS_MAX)
    return await _with_entries(db, found[::-1])


async def _with_entries(db: Reads, found: Sequence[PostingRow]) -> list[PostingLine]:
    records = await db.records(
        """
        SELECT e.posting_id, e.account, e.amount_minor, e.balance_minor
          FROM unnest($1::bigint[], $2::bigint[]) AS p (merchant_id, id)
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
         ORDER BY e.posting_id, e.line""",
        [posting.merchant_id for posting in found],
        [posting.id for posting in found],
    )
    entries: dict[int, list[EntryLine]] = {posting.id: [] for posting in found}
    for posting_id, *entry in records:
        entries[posting_id].append(EntryLine(*entry))
    return [
        PostingLine(**msgspec.structs.asdict(posting), entries=entries[posting.id])
        for posting in found
    ]
