"""Payouts that need attention: manual payouts, payouts on hold, and stuck automatic payouts."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from manilla.kit import listing
from manilla.kit.database.rows import Reads, columns
from manilla.kit.environment import Environment
from manilla.kit.listing import PAGE_ROWS, Conditions, Page
from manilla.kit.listing.sorting import AmountFilter, Selection, SortKeys, SortOrder, Totals
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone, scope_conditions
from manilla.merchants.outgoing import OutgoingHold
from manilla.payouts.initiate import COMPLETE_IN_SANDBOX, SEND
from manilla.payouts.listing import FIELDS
from manilla.payouts.payout import Payout
from manilla.payouts.store import PAYOUT_COLUMNS, read

# Age after which a payout without a final status counts as stuck.
STUCK_AFTER = timedelta(hours=1)


class QueueFilter(AmountFilter, frozen=True, kw_only=True):
    search: str | None = None  # a transaction id, or a merchant's full reference
    sort: SortOrder = SortOrder.OLDEST


ALL = QueueFilter()
# Sorted by environment, `production` comes before `sandbox`.
_ORDERS = {
    SortOrder.NEWEST: SortKeys(("environment", "trx_id"), tuple[Environment, str]),
    SortOrder.OLDEST: SortKeys(("environment", "trx_id"), tuple[Environment, str], False),
    SortOrder.LARGEST: SortKeys(("amount_minor", "trx_id"), tuple[int, str]),
    SortOrder.SMALLEST: SortKeys(("amount_minor", "trx_id"), tuple[int, str], False),
}


class Progress(msgspec.Struct, frozen=True):
    """The progress of the job that sends a payout and queries its status."""

    attempts: int
    failures: int
    due_at: datetime
    parked_at: datetime | None
    last_error: str | None


class Stuck(msgspec.Struct, frozen=True):
    payout: Payout
    progress: Progress
    case_id: int | None  # id of the payout's open `no_answer` case


class Waiting(msgspec.Struct, frozen=True):
    payout: Payout
    hold: OutgoingHold | None  # why the payout is on hold, or None


STUCK_FIELDS = FIELDS.inside(
    Stuck,
    "payout",
    attempts="progress.attempts",
    failures="progress.failures",
    last_error="progress.last_error",
    parked_at="progress.parked_at",
    case="case_id",
)
ON_HOLD_FIELDS = FIELDS.inside(
    Waiting,
    "payout",
    on_hold="hold",
    reason=lambda row: row.hold and row.hold.text,
    on_hold_reason=lambda row: row.hold and row.hold.text,
)


# SQL expression that returns why an unsent payout is on hold.
HOLD = """
       CASE WHEN status = 'pending' AND began_at IS NULL
            THEN outgoing_hold(merchant_id, environment, false) END"""
# Selects payouts that have a job. There are few jobs, so this does not scan all payouts.
_WITH_JOB = f"""
    (SELECT found.*, j.kind AS job_kind, j.attempts, j.failures, j.due_at, j.parked_at, j.last_error
       FROM job j
      CROSS JOIN LATERAL (
            SELECT {PAYOUT_COLUMNS}, {HOLD} AS hold FROM payout
             WHERE merchant_id = j.merchant_id AND trx_id = j.subject LIMIT 1) AS found)
    AS waiting"""
_CASE = """
    (SELECT c.id FROM operator_case c
      WHERE (c.merchant_id, c.kind, c.reference, c.status)
            = (waiting.merchant_id, 'no_answer', waiting.trx_id, 'open'))"""
_BY_ID = {SortOrder.OLDEST: SortKeys(("trx_id",), tuple[str], False)}


async def manual(
    db: Reads,
    scope: Everyone,
    wanted: QueueFilter = ALL,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Payout]:
    """Lists pending manual payouts, by default production first, then oldest first."""
    return await _manual(scope, wanted).page(db, read, wanted.sort, after, limit)


async def manual_totals(db: Reads, scope: Everyone, wanted: QueueFilter) -> Totals:
    return await _manual(scope, wanted).totals(db)


def _manual(scope: Everyone, wanted: QueueFilter) -> Selection:
    conditions = _within(scope, wanted).add("status = 'pending' AND provider IS NULL")
    return Selection("payout", PAYOUT_COLUMNS, _ORDERS, conditions)


async def stuck(
    db: Reads,
    scope: Everyone,
    wanted: QueueFilter = ALL,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Stuck]:
    """Lists open payouts, oldest first, that are overdue and not on hold, or whose job failed."""
    conditions = (
        _within(scope, wanted)
        .add("job_kind = {} AND status = 'pending'", SEND)
        .add(
            "(parked_at IS NOT NULL OR (created_at < now() - {}::interval AND hold IS NULL))",
            STUCK_AFTER,
        )
    )
    selected = Selection(_WITH_JOB, f"*, {_CASE} AS case_id", _BY_ID, conditions)
    return await selected.page(db, _stuck, SortOrder.OLDEST, after, limit)


def _stuck(record: Any) -> Stuck:
    return Stuck(read(record), msgspec.convert(dict(record), Progress), record["case_id"])


async def on_hold(
    db: Reads,
    scope: Everyone,
    wanted: QueueFilter = ALL,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Waiting]:
    """Lists automatic payouts that have not been sent because their merchant's money is on hold."""
    conditions = _within(scope, wanted).add(
        "job_kind = ANY ({}) AND hold IS NOT NULL", [SEND, COMPLETE_IN_SANDBOX]
    )
    selected = Selection(_WITH_JOB, "*", _BY_ID, conditions)
    return await selected.page(db, _waiting, SortOrder.OLDEST, after, limit)


def _waiting(record: Any) -> Waiting:
    return Waiting(read(record), OutgoingHold(record["hold"]))


async def progress(db: Reads, payout: Payout) -> Progress | None:
    """Returns the progress of the payout's job, or None if the payout has no job now."""
    return await db.row(
        Progress,
        f"""
        SELECT {columns(Progress)} FROM job
         WHERE merchant_id = $1 AND kind = $2 AND subject = $3""",
        *(payout.merchant_id, SEND, payout.trx_id),
    )


def _within(scope: Everyone, wanted: QueueFilter) -> Conditions:
    conditions = (
        scope_conditions(scope)
        .add_given("trx_id >= {}", wanted.since and trx_ids.floor(wanted.since))
        .add_given("trx_id < {}", wanted.until and trx_ids.floor(wanted.until))
        .add_given("amount_minor >= {}", wanted.min_minor)
        .add_given("amount_minor <= {}", wanted.max_minor)
    )
    text = listing.search_text(wanted.search)
    if text is None:
        return conditions
    merchant_id = trx_ids.merchant_of(text)
    if merchant_id is None:
        return conditions.add("ref_trx = {}", text)
    return conditions.add("merchant_id = {} AND trx_id = {}", merchant_id, text)
