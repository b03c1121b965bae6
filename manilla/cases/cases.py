"""Cases: opened by the program when it must not decide, resolved by a person."""

from datetime import datetime
from enum import StrEnum

import msgspec
import structlog

from manilla.cases import suspense
from manilla.cases.suspense import Action
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger.posting import Environment

log = structlog.get_logger(__name__)


class Kind(StrEnum):
    PAID_AFTER_DECLINE = "paid_after_decline"
    SECOND_CHARGE_PAID = "second_charge_paid"
    WRONG_AMOUNT = "wrong_amount"  # less, more, or another currency than was agreed
    WEBHOOK_DISAGREES = "webhook_disagrees"  # a signed message and the provider's API differ
    UNKNOWN_REFERENCE = "unknown_reference"
    CONTRADICTION = "contradiction"  # of a final state; nothing was moved
    CLEARING_DIFFERS = "clearing_differs"  # our books and a provider's balance
    NO_ANSWER = "no_answer"  # the provider could not be asked for too long


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

    @property
    def amount(self) -> Money | None:
        if self.currency is None or self.amount_minor is None:
            return None
        return Money(self.currency, self.amount_minor)


_CASE = """
    SELECT id, merchant_id, environment, kind, reference, trx_id, currency, amount_minor, detail,
           status, resolution, opened_at, resolved_at
      FROM operator_case"""

NOTE_LENGTH_MAX = 200


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
    reopens: bool = False,
) -> None:
    """Opened once for each kind of trouble with a reference, however often it is found.

    `reopens`: trouble that can come anew after it was resolved.
    """
    await connection.execute(
        """
        INSERT INTO operator_case AS c
               (merchant_id, environment, kind, reference, trx_id, currency, amount_minor, detail)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            ON CONFLICT (merchant_id, kind, reference) DO UPDATE
           SET status = 'open', detail = excluded.detail, amount_minor = excluded.amount_minor,
               opened_at = now(), resolution = NULL, resolved_at = NULL
         WHERE $9 AND c.status = 'resolved'""",
        *(merchant_id, environment, kind, reference, trx_id),
        *(amount.currency if amount else None, amount.minor if amount else None, detail, reopens),
    )
    log.warning("case_opened", kind=kind, reference=reference)


async def cases(db: Database, *, include_resolved: bool = False) -> list[Case]:
    return await db.rows(
        Case,
        _CASE + " WHERE $1 OR status = 'open' ORDER BY opened_at LIMIT 1000",
        include_resolved,
    )


class CaseNotFound(Refusal):
    status, code = 404, "CASE_NOT_FOUND"
    message = "There is no such case."


class CaseRefused(Refusal):
    message = "The case cannot be resolved like this."


async def find(db: Database, case_id: int) -> Case:
    found = await db.row(Case, _CASE + " WHERE id = $1", case_id)
    if found is None:
        raise CaseNotFound(f"There is no case {case_id}.")
    return found


async def resolve(db: Database, case_id: int, note: str, action: Action) -> Case:
    """Closes a case, with the money it was about where there is any; once."""
    if not 1 <= len(note.strip()) <= NOTE_LENGTH_MAX or not note.isprintable():
        raise CaseRefused(f"A note has 1 to {NOTE_LENGTH_MAX} printable characters.")
    async with db.transaction() as connection:
        case = await connection.row(Case, _CASE + " WHERE id = $1 FOR UPDATE", case_id)
        if case is None:
            raise CaseNotFound(f"There is no case {case_id}.")
        if case.status != "open":
            raise CaseRefused(f"Case {case_id} is resolved already: {case.resolution}")
        if action is not Action.NOTHING:
            await suspense.release(connection, case.merchant_id, case.reference, action)
        elif await suspense.is_held(connection, case.merchant_id, case.reference):
            raise CaseRefused("Money of this case is in suspense: `--action credit` or `return`.")
        await connection.execute(
            """
            UPDATE operator_case
               SET status = 'resolved', resolution = $3, resolved_at = now()
             WHERE merchant_id = $1 AND id = $2""",
            *(case.merchant_id, case.id, f"{action}: {note}"),
        )
    return await find(db, case_id)
