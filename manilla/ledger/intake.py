"""Uses one SQL statement to write payments or payouts that are created at the same time.

The statement calls a database function that takes the items as JSON and returns a result for each
item. The function also counts the requests toward the rate limit.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Protocol, Self

import msgspec

from manilla.kit import crash, ratelimit, strict_json
from manilla.kit.batch import Batcher
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Unavailable
from manilla.kit.ratelimit import RateTicket
from manilla.ledger.idempotency import RepeatKey

TRIES = 5
COMMA = ord(",")


class IntakeOutcome(StrEnum):
    CREATED = "created"
    FREE = "free"  # the dry run found no reason to reject the item
    REPLAYED = "replayed"  # the idempotency key was used before, with the same body
    KEY_CONFLICT = "key_conflict"  # the idempotency key was used before with a different body
    DUPLICATE = "duplicate"  # the merchant has already used the reference
    # An earlier item in the batch has the same reference or key. A retry finds that item's result.
    AGAIN = "again"
    RATE_LIMITED = "rate_limited"
    API_KEY_ENDED = "api_key_ended"  # the API key was revoked or has expired
    MERCHANT_BLOCKED = "merchant_blocked"
    PAYOUT_DISABLED = "payout_disabled"
    NO_WALLET = "no_wallet"
    INSUFFICIENT_BALANCE = "insufficient_balance"
    BALANCE_LIMIT = "balance_limit"
    DAY_LIMIT = "day_limit"  # the merchant's transactions would exceed its daily limit
    ACCOUNT_NOT_SAVED = "account_not_saved"
    ROW_DECIDED = "row_decided"


class NewRow(Protocol):
    """A struct whose fields are the columns of the row to create."""

    @property
    def merchant_id(self) -> int: ...
    @property
    def environment(self) -> str: ...
    @property
    def ref_trx(self) -> str: ...
    @property
    def currency(self) -> str: ...
    @property
    def amount_minor(self) -> int: ...


class NewItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Values to write or check together with a new row. Payments and payouts add fields.

    Fields with their default value are not encoded, so that the database parses half as many
    fields. The same applies to the row and to its ItemPlace.
    """

    bucket: str
    rate_limit: int
    endpoint: str | None = None
    key: str | None = None
    body_hash: str | None = None
    answer: str | None = None  # the response to store under the idempotency key
    job_kind: str | None = None
    due_in_seconds: float = 0  # relative to the database's clock, because hosts' clocks may differ
    dry_run: bool = False  # True if the item is only checked and not written
    # The maximum total of the merchant's transactions since the id `day_from`. None means no limit.
    day_limit_minor: int | None = None
    day_from: str | None = None
    # The event for the new, pending transaction, or None if no endpoint is subscribed to it.
    event_id: str | None = None
    event: str | None = None
    event_body: str | None = None

    @classmethod
    def of_request(cls, ticket: RateTicket, repeat_key: RepeatKey | None, **others: Any) -> Self:
        key = msgspec.structs.asdict(repeat_key) if repeat_key else {}
        return cls(bucket=ticket.bucket, rate_limit=ticket.limit, **key, **others)


class ItemPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of an item that depend on the other items in the batch."""

    item: int  # position in the batch
    cost: int = 1  # 1 if the item counts toward the rate limit
    behind: int = 0  # number of later items that count toward the same rate limit
    repeats: bool = False  # whether an earlier item has the same reference or key
    # The sum of the amounts of earlier items in the batch that count toward the daily limit.
    ahead_minor: int = 0
    # True for a dry run. The database functions use this name, and the previous version calls them.
    only_look: bool = False


class IntakeResult(msgspec.Struct, frozen=True):
    item: int
    outcome: IntakeOutcome
    trx_id: str | None  # id of the first transaction with this reference
    status: str | None
    answer: str | None  # response to the first request with this idempotency key
    used: int
    resets_in_seconds: int


# A row, its item, and 1 if the item counts toward the rate limit (otherwise 0).
Taken = tuple[NewRow, NewItem, int]


class Intake:
    def __init__(self, db: Database, function: str) -> None:
        self._connection = db.keep_connection(writes=True)
        # The JSON is passed as bytes, because asyncpg would encode a string a second time.
        self._sql = f"""
            SELECT {columns(IntakeResult)} FROM {function}(convert_from($1, 'UTF8')::jsonb, $2)"""
        self._batcher: Batcher[Taken, IntakeResult] = Batcher(self._write)

    async def take(self, row: NewRow, item: NewItem, ticket: RateTicket) -> IntakeResult:
        """Writes the row, and counts the request toward its rate limit if it is not counted yet."""
        for _ in range(TRIES):
            cost = 1 if ticket.allowance is None else 0
            taken = await self._batcher.submit((row, item, cost))
            if ticket.allowance is None:
                ticket.spend(taken.used, taken.resets_in_seconds)
            if taken.outcome is not IntakeOutcome.AGAIN:
                return taken
        raise Unavailable

    async def _write(self, new: Sequence[Taken]) -> Sequence[IntakeResult]:
        items = _encoded(new)
        crash.point("before_intake_commit")
        records = await self._connection.records(self._sql, items, ratelimit.WINDOW)
        crash.point("after_intake_commit")
        assert len(records) == len(new)
        records.sort()  # sorts the records by `item`, the first column
        return [
            IntakeResult(item, IntakeOutcome(outcome), *rest) for item, outcome, *rest in records
        ]


def _encoded(new: Sequence[Taken]) -> bytearray:
    """Encodes the new rows as a JSON array. Each object has the fields of a row, item and place."""
    text = bytearray(b"[")
    for (row, item, _), place in zip(new, _places(new), strict=True):
        strict_json.encode_into(row, text, -1)
        for part in (item, place):
            brace = len(text) - 1
            strict_json.encode_into(part, text, brace)  # overwrites the closing brace
            text[brace] = COMMA
        text += b","
    text[-1:] = b"]"
    return text


def _places(new: Sequence[Taken]) -> Iterator[ItemPlace]:
    behind: dict[str, int] = {}
    for _, item, cost in new:
        behind[item.bucket] = behind.get(item.bucket, 0) + cost
    seen: set[tuple[object, ...]] = set()
    ahead: dict[tuple[object, ...], int] = {}
    for number, (row, item, cost) in enumerate(new):
        behind[item.bucket] -= cost
        names = _unique_keys(row, item)
        repeats = not seen.isdisjoint(names)
        seen |= names
        wallet = row.merchant_id, row.environment, row.currency
        ahead_minor = 0 if item.day_limit_minor is None else ahead.get(wallet, 0)
        if item.day_limit_minor is not None and not item.dry_run:
            ahead[wallet] = ahead_minor + row.amount_minor
        yield ItemPlace(number, cost, behind[item.bucket], repeats, ahead_minor, item.dry_run)


def _unique_keys(row: NewRow, item: NewItem) -> set[tuple[object, ...]]:
    """Returns the unique keys that are inserted when the item is written."""
    if item.dry_run:
        return set()
    owner = (row.merchant_id, row.environment)
    names: set[tuple[object, ...]] = {(*owner, row.ref_trx)}
    if item.key is not None:
        names.add((*owner, item.endpoint, item.key))
    return names
