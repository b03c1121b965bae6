"""Lists refunds, newest first by the time in their IDs."""

from datetime import datetime
from typing import Any

import msgspec

from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Moment, Page, Query
from manilla.ledger import trx_ids
from manilla.ledger.scope import Scope, whose, within
from manilla.refunds.refund import Refund, RefundStatus
from manilla.refunds.store import REFUND_COLUMNS

FIELDS = Fields(Refund)


class RefundFilter(msgspec.Struct, frozen=True, kw_only=True):
    status: RefundStatus | None = None
    currency: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    by_operator: bool | None = None  # whether an administrator must pay the refund
    search: str | None = None  # id of a refund or payment, or a charge's reference


async def refunds(
    db: Database,
    scope: Scope,
    wanted: RefundFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Refund]:
    conditions = (
        within(scope)
        .add_given("status = {}", wanted.status)
        .add_given("currency = {}", wanted.currency)
        .add_given("by_operator = {}", wanted.by_operator)
    )
    text = listing.searched(wanted.search)
    if text is not None:
        trx_id = text.partition("-")[0]
        merchant_id = trx_ids.merchant_of(trx_id)
        if merchant_id is None:
            return Page([])
        conditions.add("merchant_id = {}", merchant_id)
        conditions.add("(trx_id = {} OR payment_trx_id = {})", trx_id, trx_id)
    steps = Query(
        "refund",
        REFUND_COLUMNS,
        trx_ids.CLOCK,
        whose(scope),
        conditions,
        wanted.since,
        wanted.until,
    )
    return await listing.walk(db, steps, _read, after, limit)


async def count_rejected(db: Database, scope: Scope, since: datetime) -> int:
    """Counts rejected refunds created since then, whose customers did not get their money back."""
    conditions = within(scope).add("trx_id >= {}", trx_ids.floor(since))
    return await db.number(
        f"SELECT count(*) FROM refund WHERE status = 'failed' AND {conditions.sql}",
        *conditions.values,
    )


def _read(record: Any) -> Refund:
    return msgspec.convert(dict(record), Refund)
