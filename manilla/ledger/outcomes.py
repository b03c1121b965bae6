"""Writes the outcome of a transaction as a whole: rows, postings, timeline, notification and jobs.

One function writes one outcome or many. Each entity decides the outcome in its own module, without
reading or writing anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from manilla.kit.database.connections import Connection, KeptConnection
from manilla.kit.environment import Environment
from manilla.ledger.posting import Posting, in_arrays
from manilla.ledger.timeline import NO_FACTS
from manilla.posting_kinds import PostingFlag, kinds_with

_UNLIMITED = frozenset(kinds_with(PostingFlag.UNLIMITED))
NOTHING: Mapping[str, Any] = {}


class TimelineStep(msgspec.Struct, frozen=True):
    """The outcome's event in the timeline."""

    event: str
    before: str
    after: str
    detail: str | None = None
    facts: Mapping[str, str] = NO_FACTS

    def columns(self) -> dict[str, Any]:
        return {
            "step": self.event,
            "from_status": self.before,
            "to_status": self.after,
            "detail": self.detail,
            "facts": dict(self.facts),
        }


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
    step: TimelineStep | None  # None: only the notification is about this transaction
    postings: Sequence[Posting] = ()
    notice: Mapping[str, str] = NOTHING  # see `outbox.notice`
    ended_jobs: Sequence[EndedJob] = ()
    # Written together with this outcome, or not at all: outcomes of other transactions, whose rows
    # the caller has locked or creates.
    followers: Sequence["TransactionOutcome"] = ()
    # Further columns of the item, for the SQL function that decides whether it is disputed.
    further: Mapping[str, Any] = NOTHING

    def item(self, number: int) -> dict[str, Any]:
        """Returns the outcome, without its postings, as an item of `outcomes_apply`."""
        return {
            "item": number,
            "merchant_id": self.merchant_id,
            "trx_id": self.trx_id,
            "environment": self.environment,
            "currency": self.currency,
            "credit_minor": sum(map(_credit_minor, self.postings)),
            **({} if self.step is None else self.step.columns()),
            "jobs": self.ended_jobs,
            **{f"{row.table}_key": row.key for row in self.rows},
            **{
                f"{row.table}_{name}": row.columns[name]
                for row in self.rows
                for name in row.columns
            },
            **self.notice,
            **self.further,
        }


# The postings' items and their arrays follow the items.
_APPLY = "outcomes_apply($1::jsonb, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12"


async def apply(connection: Connection, outcome: TransactionOutcome) -> bool:
    """Writes the outcome. The caller must have locked the rows.

    Returns False, and changes nothing, if the wallet would exceed its maximum balance.
    """
    written = await connection.value(f"SELECT {_APPLY}, ARRAY[0], NULL)", *_parameters([outcome]))
    return bool(written)


async def apply_undisputed(
    connection: KeptConnection, items: Sequence[TransactionOutcome], undisputed: str
) -> set[int]:
    """Writes, in one SQL statement, the outcomes that nothing disputes. Returns their numbers.

    `undisputed` is an SQL function that locks the rows of the items in $1, and returns the numbers
    to write and the fences of their jobs.
    """
    [record] = await connection.records(
        f"SELECT {_APPLY}, u.numbers, u.fences) FROM {undisputed}($1::jsonb) AS u",
        *_parameters(items),
    )
    return set(record[0])


def _credit_minor(posting: Posting) -> int:
    """Returns what the posting adds to the wallet, if the wallet's maximum balance applies."""
    return 0 if posting.kind in _UNLIMITED else max(0, posting.wallet.minor)


def _parameters(items: Sequence[TransactionOutcome]) -> list[Any]:
    following = [(number, each) for number, item in enumerate(items) for each in item.followers]
    numbered = list(enumerate([*items, *(each for _, each in following)]))
    encoded_items = [each.item(number) for number, each in numbered]
    for item, (followed, _) in zip(encoded_items[len(items) :], following, strict=True):
        item["follows"] = followed
    encoded = msgspec.json.encode(encoded_items)
    numbers = [number for number, each in numbered for _ in each.postings]
    postings = [posting for _, each in numbered for posting in each.postings]
    return [encoded.decode(), numbers, *in_arrays(postings)]
