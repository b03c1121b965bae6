"""Lists merchants for administrators."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from manilla.kit import listing
from manilla.kit.database.rows import Reads, columns
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Conditions, Page
from manilla.kit.listing.sorting import (
    NUMBERED,
    RecordFilter,
    Selection,
    SortKeys,
    SortOrder,
    Totals,
    read_as,
)
from manilla.merchants.merchants import MerchantStatus
from manilla.merchants.queries import MERCHANT, MerchantRow

FIELDS = Fields(
    MerchantRow,
    payouts=lambda row: "on" if row.payouts_enabled else "off",
    kyc=lambda row: "verified" if row.kyc_verified else "required",
    phone=lambda row: "verified" if row.phone_verified else "required",
)


_ORDERS = {**NUMBERED, SortOrder.NAME: SortKeys(("name", "id"), tuple[str, int], False)}


class MerchantFilter(RecordFilter, frozen=True, kw_only=True):
    status: MerchantStatus | None = None
    # An exact id or merchant key, or part of the name or email address.
    search: Annotated[str, msgspec.Meta(max_length=listing.SEARCH_LENGTH_MAX)] | None = None


async def merchants(
    db: Reads, wanted: MerchantFilter, *, after: str | None = None, limit: int = PAGE_ROWS
) -> Page[MerchantRow]:
    return await _selected(wanted).page(db, read_as(MerchantRow), wanted.sort, after, limit)


async def totals(db: Reads, wanted: MerchantFilter) -> Totals:
    return await _selected(wanted).count(db)


def _selected(wanted: MerchantFilter) -> Selection:
    conditions = (
        Conditions()
        .add_given("status = {}", wanted.status)
        .add_given("created_at >= {}", wanted.since)
        .add_given("created_at < {}", wanted.until)
    )
    text = listing.search_text(wanted.search)
    if text is not None:
        conditions.add(
            "(position(lower({}) IN lower(concat_ws(E'\\n', name, email))) > 0 OR id = {}::bigint"
            " OR id IN (SELECT merchant_id FROM merchant_key WHERE merchant_key = {}))",
            *(text, listing.number(text), text),
        )
    return Selection(f"({MERCHANT}) AS merchant", columns(MerchantRow), _ORDERS, conditions)


async def pending(db: Reads, limit: int) -> list[MerchantRow]:
    """Returns pending merchants, oldest first."""
    return await db.rows(
        MerchantRow, MERCHANT + " WHERE status = 'pending' ORDER BY id LIMIT $1", limit
    )


async def count_pending(db: Reads) -> int:
    return await db.number("SELECT count(*) FROM merchant WHERE status = 'pending'")


async def names(db: Reads, merchant_ids: Iterable[int]) -> dict[int, str]:
    records = await db.records(
        "SELECT id, name FROM merchant WHERE id = ANY($1::bigint[])", list(set(merchant_ids))
    )
    return {record["id"]: record["name"] for record in records}


async def count_within(db: Reads, span: tuple[int, int], without: Sequence[int]) -> int:
    """Counts the merchants whose numbers are in the range, except the listed numbers."""
    return await db.number(
        "SELECT count(*) FROM merchant WHERE id BETWEEN $1 AND $2 AND id <> ALL($3::bigint[])",
        *(*span, list(without)),
    )
