"""Writes the outcome of a transaction as a whole: rows, postings, timeline, notification and jobs.

One function writes one outcome or many. Each entity decides the outcome in its own module, without
reading or writing anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from manilla.kit.database.connections import Connection, KeptConnection
from manilla.kit.environment import Environment
from manilla.ledger.posting import Posting
from manilla.ledger.timeline import NO_FACTS
from manilla.posting_kinds import PostingFlag, kinds_with

_UNLIMITED = frozenset(kinds_with(PostingFlag.UNLIMITED))
NO_NOTICE: Mapping[str, str] = {}


class TimelineStep(msgspec.Struct, frozen=True):
    """The outcome's event in the timeline."""

    event: str
    before: str
    after: str
    detail: str | None = None
    facts: Mapping[str, str] = NO_FACTS


class EndedJob(msgspec.Struct, frozen=True):
    kind: str
    subject: str
    # Keep the job if an event has arrived since a worker or an administrator claimed it.
    only_unchanged: bool = False


class ChangedRow(msgspec.Struct, frozen=True):
    """A row with all columns that an outcome of its table writes."""

    table: str
    key: str  # the row's id, besides the merchant's
    columns: Mapping[str, Any]


class TransactionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    merchant_id: int
    trx_id: str  # the transaction of the timeline and of the notification
    environment: Environment
    currency: str
    rows: Sequence[ChangedRow]
    step: TimelineStep
    postings: Sequence[Posting] = ()
    notice: Mapping[str, str] = NO_NOTICE  # see `outbox.notice`
    ended_jobs: Sequence[EndedJob] = ()

    def item(self, number: int) -> dict[str, Any]:
        """Returns the outcome as an item of the SQL function `outcomes_apply`."""
        return {
            "item": number,
            "merchant_id": self.merchant_id,
            "trx_id": self.trx_id,
            "environment": self.environment,
            "currency": self.currency,
            "moves_wallet": any(each.wallet.minor for each in self.postings),
            "credit_minor": sum(map(_credit_minor, self.postings)),
            "postings": [_posting(each) for each in self.postings],
            "step": self.step.event,
            "from_status": self.step.before,
            "to_status": self.step.after,
            "detail": self.step.detail,
            "facts": dict(self.step.facts),
            "jobs": self.ended_jobs,
            **{row.table: row.columns for row in self.rows},
            **{f"{row.table}_key": row.key for row in self.rows},
            **self.notice,
        }


async def apply(connection: Connection, outcome: TransactionOutcome) -> bool:
    """Writes the outcome. The caller must have locked the rows.

    Returns False, and changes nothing, if the wallet would exceed its maximum balance.
    """
    written = await connection.value(
        "SELECT outcomes_apply($1::jsonb, ARRAY[0], NULL)", _encode([outcome.item(0)])
    )
    return bool(written)


async def apply_undisputed(
    connection: KeptConnection, items: Sequence[Mapping[str, Any]], undisputed: str
) -> set[int]:
    """Writes, in one SQL statement, the items that nothing disputes. Returns their numbers.

    `undisputed` is an SQL function that locks the rows of the items in $1, and returns the numbers
    to write and the fences of their jobs.
    """
    [record] = await connection.records(
        f"SELECT outcomes_apply($1::jsonb, u.numbers, u.fences) FROM {undisputed}($1::jsonb) AS u",
        _encode(items),
    )
    return set(record[0])


def _credit_minor(posting: Posting) -> int:
    """Returns what the posting adds to the wallet, if the wallet's maximum balance applies."""
    return 0 if posting.kind in _UNLIMITED else max(0, posting.wallet.minor)


def _posting(posting: Posting) -> dict[str, Any]:
    return {
        "trx_id": posting.trx_id,
        "kind": posting.stored_kind,
        "currency": posting.wallet.currency,
        "reason": posting.reason,
        "wallet_minor": posting.wallet.minor,
        "lines": posting.lines,
    }


def _encode(items: Sequence[Mapping[str, Any]]) -> str:
    return msgspec.json.encode(items).decode()
