"""Cases: opened by the program when it must not decide, resolved by a person."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from enum import StrEnum

import msgspec
import structlog

from manilla.audit import audit
from manilla.cases import levelling, suspense
from manilla.cases.suspense import Action, NothingThere
from manilla.kit.db import Connection, Database, transaction_of
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.texts import is_line
from manilla.ledger.posting import Environment

log = structlog.get_logger(__name__)


class Kind(StrEnum):
    PAID_AFTER_DECLINE = "paid_after_decline"  # of before; not opened any more
    SECOND_CHARGE_PAID = "second_charge_paid"
    WRONG_AMOUNT = "wrong_amount"  # less, more, or another currency than was agreed
    WALLET_FULL = "wallet_full"  # it would hold more than a wallet can
    WEBHOOK_DISAGREES = "webhook_disagrees"  # a signed message and the provider's API differ
    UNKNOWN_REFERENCE = "unknown_reference"
    CONTRADICTION = "contradiction"  # of a final state; nothing was moved
    CLEARING_DIFFERS = "clearing_differs"  # our books and a provider's balance
    STILL_OPEN = "still_open"  # the provider has not decided for too long
    NO_ANSWER = "no_answer"  # the provider could not be asked for too long


# Trouble that can come anew after it was resolved: always, or where something new is said.
COMES_ANEW = frozenset((Kind.CLEARING_DIFFERS,))
COMES_WITH_NEWS = frozenset((Kind.CONTRADICTION, Kind.WEBHOOK_DISAGREES))


class Case(msgspec.Struct, frozen=True):
    id: int
    merchant_id: int
    environment: str | None
    kind: str
    reference: str
    trx_id: str | None
    currency: str | None
    amount_minor: int | None
    detail: str
    status: str
    resolution: str | None
    opened_at: datetime
    resolved_at: datetime | None
    vanished_at: datetime | None = None  # what it was about was not found any more

    @property
    def amount(self) -> Money | None:
        if self.currency is None or self.amount_minor is None:
            return None
        return Money(self.currency, self.amount_minor)


class CaseEvent(msgspec.Struct, frozen=True):
    """Opened, reopened, resolved, vanished or returned: the history of a case is kept."""

    at: datetime
    event: str
    detail: str


class Way(msgspec.Struct, frozen=True):
    """A legal way to resolve a case: the action to give to `resolve`, and what it does."""

    name: Action
    explanation: str


CASE = """
    SELECT id, merchant_id, environment, kind, reference, trx_id, currency, amount_minor, detail,
           status, resolution, opened_at, resolved_at, vanished_at
      FROM operator_case"""

NOTE_LENGTH_MAX = 200
VANISHED_NOTE = "What it was about has vanished."


async def open_case(
    connection: Connection | Database,
    kind: Kind,
    reference: str,
    detail: str,
    *,
    merchant_id: int,
    environment: Environment | None = None,
    trx_id: str | None = None,
    amount: Money | None = None,
) -> None:
    """Opened once for each kind of trouble with a reference, however often it is found."""
    opened = await connection.value(
        """
        WITH opened AS (
            INSERT INTO operator_case AS c
                   (merchant_id, environment, kind, reference, trx_id, currency, amount_minor,
                    detail)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                ON CONFLICT (merchant_id, kind, reference) DO UPDATE
               SET status = 'open', detail = excluded.detail, amount_minor = excluded.amount_minor,
                   opened_at = now(), resolution = NULL, resolved_at = NULL,
                   vanished_at = NULL
             WHERE c.status = 'resolved' AND ($9 OR ($10 AND c.detail <> excluded.detail
               AND NOT EXISTS (SELECT FROM case_event e
                                WHERE e.merchant_id = c.merchant_id AND e.case_id = c.id
                                  AND e.event <> 'resolved' AND e.detail = excluded.detail)))
            RETURNING merchant_id, id, detail)
        INSERT INTO case_event (merchant_id, case_id, event, detail)
        SELECT o.merchant_id, o.id,
               CASE WHEN EXISTS (SELECT FROM case_event e
                                  WHERE e.merchant_id = o.merchant_id AND e.case_id = o.id)
                    THEN 'reopened' ELSE 'opened' END,
               o.detail
          FROM opened o
        RETURNING event""",
        *(merchant_id, environment, kind, reference, trx_id),
        *(amount.currency if amount else None, amount.minor if amount else None, detail),
        *(kind in COMES_ANEW, kind in COMES_WITH_NEWS),
    )
    if opened is not None:
        log.warning("case_opened", kind=kind, reference=reference, again=opened == "reopened")


async def cases(db: Database, *, include_resolved: bool = False) -> list[Case]:
    return await db.rows(
        Case,
        CASE + " WHERE $1 OR status = 'open' ORDER BY opened_at LIMIT 1000",
        include_resolved,
    )


class CaseNotFound(Refusal):
    status, code = 404, "CASE_NOT_FOUND"
    message = "There is no such case."


class CaseRefused(Refusal):
    message = "The case cannot be resolved like this."


async def find(db: Database | Connection, case_id: int) -> Case:
    found = await db.row(Case, CASE + " WHERE id = $1", case_id)
    if found is None:
        raise CaseNotFound(f"There is no case {case_id}.")
    return found


async def history(db: Database, case: Case) -> list[CaseEvent]:
    """Oldest first."""
    return await db.rows(
        CaseEvent,
        """
        SELECT at, event, detail FROM case_event
         WHERE merchant_id = $1 AND case_id = $2 ORDER BY id""",
        *(case.merchant_id, case.id),
    )


async def ways(db: Database | Connection, case: Case) -> list[Way]:
    """What a person may do about it, as things are now."""
    if case.status != "open":
        return []
    if await suspense.is_held(db, case.merchant_id, case.reference):
        return [Way(action, text) for action, text in suspense.WAYS.items()]
    found: dict[Action, str] = {}
    if case.kind == Kind.CONTRADICTION:
        found = await levelling.ways(db, case.merchant_id, case.reference)
    return [Way(action, text) for action, text in (found | _NOTHING).items()]


_NOTHING = {Action.NOTHING: "Somebody has looked, and there is nothing to be moved."}

# Settles the payout that a case is about as one that came back.
Reverse = Callable[[Connection, Case], Awaitable[None]]


async def check(connection: Connection, case_id: int, note: str, action: Action) -> None:
    """Refuses what `resolve` would refuse, as things are now."""
    _check_note(note)
    case = await find(connection, case_id)
    _check_open(case)
    await _check_way(connection, case, action)


async def resolve(
    db: Database | Connection,
    case_id: int,
    note: str,
    action: Action,
    *,
    reverse: Reverse | None = None,
) -> Case:
    """Closes a case, with the money it was about where there is any; once.

    `reverse` belongs to the room of payouts: `payouts.disputes.resolve` brings it along.
    """
    _check_note(note)
    async with transaction_of(db) as connection:
        case = await _locked(connection, case_id)
        await _check_way(connection, case, action)
        why = f"case {case.id}: {note}"
        match action:
            case Action.CREDIT | Action.RETURN | Action.KEEP:
                await suspense.release(connection, case.merchant_id, case.reference, action, why)
            case Action.WRITE_OFF | Action.DEBIT:
                await levelling.level(connection, case.merchant_id, case.reference, action, why)
            case Action.REVERSE:
                assert reverse is not None
                await reverse(connection, case)
        await _close(connection, case, f"{action}: {note}")
        await audit.record(
            connection,
            "case.resolve",
            f"case:{case.id}",
            merchant_id=case.merchant_id or None,
            kind=case.kind,
            reference=case.reference,
            action_taken=action,
            note=note,
            environment=case.environment,
            amount=None if action is Action.NOTHING else case.amount,
        )
    return await find(db, case_id)


async def close(
    connection: Connection, merchant_id: int, kind: Kind, reference: str, resolution: str
) -> None:
    """Closes the case, where one is open: what it was about has been decided in another way."""
    case = await connection.row(
        Case,
        CASE + " WHERE (merchant_id, kind, reference, status) = ($1, $2, $3, 'open') FOR UPDATE",
        *(merchant_id, kind, reference),
    )
    if case is not None:
        await _close(connection, case, resolution)


async def mark_vanished(
    db: Database, kind: Kind, reference: str, detail: str, *, merchant_id: int, is_vanished: bool
) -> None:
    """Notes in the open case, if there is one, that what it is about has vanished or returned."""
    await db.execute(
        """
        WITH noted AS (
            UPDATE operator_case SET vanished_at = CASE WHEN $4 THEN now() END
             WHERE (merchant_id, kind, reference, status) = ($1, $2, $3, 'open')
               AND (vanished_at IS NULL) = $4
            RETURNING merchant_id, id)
        INSERT INTO case_event (merchant_id, case_id, event, detail)
        SELECT merchant_id, id, CASE WHEN $4 THEN 'vanished' ELSE 'returned' END, $5 FROM noted""",
        *(merchant_id, kind, reference, is_vanished, detail),
    )


async def close_vanished(db: Database | Connection, case_id: int) -> Case:
    """Closes a case in one step, because what it was about has vanished."""
    case = await find(db, case_id)
    _check_open(case)
    if case.vanished_at is None:
        raise CaseRefused(
            f"What case {case_id} is about has not vanished: resolve it with a note instead."
        )
    return await resolve(db, case_id, VANISHED_NOTE, Action.NOTHING)


async def is_open(db: Database, merchant_id: int, kind: Kind, reference: str) -> bool:
    found = await db.value(
        """
        SELECT true FROM operator_case
         WHERE (merchant_id, kind, reference, status) = ($1, $2, $3, 'open')""",
        *(merchant_id, kind, reference),
    )
    return bool(found)


async def _locked(connection: Connection, case_id: int) -> Case:
    """The transaction first, then the case: as whoever opens one does."""
    found = await find(connection, case_id)
    for table in ("payment", "payout"):
        await connection.execute(
            f"SELECT FROM {table} WHERE merchant_id = $1 AND trx_id = $2 FOR UPDATE",
            *(found.merchant_id, found.trx_id),
        )
    case = await connection.row(
        Case,
        CASE + " WHERE merchant_id = $1 AND id = $2 FOR UPDATE",
        *(found.merchant_id, case_id),
    )
    assert case is not None
    _check_open(case)
    return case


def _check_open(case: Case) -> None:
    if case.status != "open":
        raise CaseRefused(f"Case {case.id} is resolved already: {case.resolution}")


def _check_note(note: str) -> None:
    if not is_line(note, NOTE_LENGTH_MAX):
        raise CaseRefused(f"A note has 1 to {NOTE_LENGTH_MAX} printable characters.")


async def _check_way(connection: Connection, case: Case, action: Action) -> None:
    legal = [way.name for way in await ways(connection, case)]
    if action in legal:
        return
    if action in suspense.WAYS:
        raise NothingThere
    if Action.NOTHING not in legal:
        raise CaseRefused(f"Money of this case is in suspense: `--action {'`, `'.join(legal)}`.")
    raise CaseRefused(f"This case can be resolved by: {', '.join(legal)}.")


async def _close(connection: Connection, case: Case, resolution: str) -> None:
    await connection.execute(
        """
        WITH closed AS (
            UPDATE operator_case
               SET status = 'resolved', resolution = $3, resolved_at = now()
             WHERE merchant_id = $1 AND id = $2)
        INSERT INTO case_event (merchant_id, case_id, event, detail)
        VALUES ($1, $2, 'resolved', $3)""",
        *(case.merchant_id, case.id, resolution),
    )
