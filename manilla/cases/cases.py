"""Cases: problems that Manilla must not resolve automatically. An administrator resolves them."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec
import structlog

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.mail import outbox
from manilla.mail.kinds import MailKind

log = structlog.get_logger(__name__)


class CaseKind(StrEnum):
    PAID_AFTER_DECLINE = "paid_after_decline"  # exists only in older data
    SECOND_CHARGE_PAID = "second_charge_paid"
    LINK_ALREADY_PAID = "link_already_paid"  # a second payment through a single-payment link
    WRONG_AMOUNT = "wrong_amount"  # the received amount or currency is wrong
    # A surplus or partial amount could not be refunded, and is in the suspense account.
    NOT_RETURNED = "not_returned"
    WALLET_FULL = "wallet_full"  # a credit would exceed the wallet's maximum balance
    WEBHOOK_DISAGREES = "webhook_disagrees"  # a signed webhook contradicts the provider's API
    UNKNOWN_REFERENCE = "unknown_reference"
    # A transfer into a customer's account that must not be credited without a decision.
    ACCOUNT_TRANSFER = "account_transfer"
    # A provider reports a transfer into an account that belongs to no customer.
    UNKNOWN_ACCOUNT = "unknown_account"
    # It is unknown whether a provider has created a customer's account.
    ACCOUNT_NOT_CREATED = "account_not_created"
    # A provider reports a dispute that fits no payment, or is above what is left of the payment.
    UNKNOWN_DISPUTE = "unknown_dispute"
    # A provider's report contradicts a final status. No money was moved.
    CONTRADICTION = "contradiction"
    # A provider statement and our ledger disagree about one transaction.
    STATEMENT_DIFFERS = "statement_differs"
    CLEARING_DIFFERS = "clearing_differs"  # our ledger and a provider's balance differ
    # A transfer differs from what was accepted. It is not sent.
    NOT_AS_ACCEPTED = "not_as_accepted"
    STILL_OPEN = "still_open"  # the provider has not reported a final status for too long
    NO_ANSWER = "no_answer"  # the provider has not sent a usable response for too long


# A resolved case of these kinds is reopened whenever its problem recurs.
REOPENED_BY_RECURRENCE = frozenset((CaseKind.CLEARING_DIFFERS,))
# A resolved case of these kinds is reopened only if there is new evidence.
REOPENED_BY_NEW_EVIDENCE = frozenset(
    (
        CaseKind.CONTRADICTION,
        CaseKind.WEBHOOK_DISAGREES,
        CaseKind.STATEMENT_DIFFERS,
        CaseKind.WRONG_AMOUNT,
    )
)


class CaseAction(StrEnum):
    """An administrator's decision about the money in a case."""

    NOTHING = "nothing"
    # The next three actions apply to money in the suspense account.
    CREDIT = "credit"  # credit the money to the merchant
    RETURN = "return"  # return the money to the payer through the provider
    KEEP = "keep"  # the platform keeps the money, because nobody claims it
    # The next three actions apply if a provider's report contradicts a final status.
    WRITE_OFF = "write_off"  # the provider has the money; the platform bears the loss
    DEBIT = "debit"  # the provider has the money; the merchant bears the loss
    REVERSE = "reverse"  # the payout's money was returned, so reverse the payout


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
    vanished_at: datetime | None = None  # when a check found that the problem no longer exists
    provider: str | None = None  # the case's provider, or None

    @property
    def amount(self) -> Money | None:
        if self.currency is None or self.amount_minor is None:
            return None
        return Money(self.currency, self.amount_minor)

    @property
    def path(self) -> str:
        return path(self.merchant_id, self.id)


class CaseEvent(msgspec.Struct, frozen=True):
    """An event in a case's history, for example that the case was opened."""

    at: datetime
    event: str
    detail: str


def path(merchant_id: int, case_id: int) -> str:
    """Returns the path of the case's page in the console."""
    return f"/cases/{case_id}?merchant={merchant_id}"


CASE = f"SELECT {columns(Case)} FROM operator_case"

NOTE_LENGTH_MAX = 200


async def open_case(
    connection: Connection | Database,
    kind: CaseKind,
    reference: str,
    detail: str,
    *,
    merchant_id: int,
    environment: Environment | None = None,
    trx_id: str | None = None,
    amount: Money | None = None,
    provider: str | None = None,
    replaces: bool = False,
) -> None:
    """Opens or reopens a case. There is at most one case for each kind and reference.

    If the case is already open, `replaces` makes it show this detail and amount from now on.
    """
    if isinstance(connection, Database):
        async with connection.transaction() as inside:
            await open_case(
                *(inside, kind, reference, detail),
                merchant_id=merchant_id,
                environment=environment,
                trx_id=trx_id,
                amount=amount,
                provider=provider,
                replaces=replaces,
            )
        return
    opened = await connection.value(
        """
        WITH opened AS (
            INSERT INTO operator_case AS c
                   (merchant_id, environment, kind, reference, trx_id, currency, amount_minor,
                    detail, provider)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $11)
                ON CONFLICT (merchant_id, kind, reference) DO UPDATE
               SET status = 'open', detail = excluded.detail, amount_minor = excluded.amount_minor,
                   opened_at = now(), resolution = NULL, resolved_at = NULL,
                   vanished_at = NULL, provider = excluded.provider
             WHERE (c.status = 'resolved' AND $9)
                OR (($12 OR (c.status = 'resolved' AND $10)) AND c.detail <> excluded.detail
               AND NOT EXISTS (SELECT FROM case_event e
                                WHERE e.merchant_id = c.merchant_id AND e.case_id = c.id
                                  AND e.event <> 'resolved' AND e.detail = excluded.detail))
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
        *(kind in REOPENED_BY_RECURRENCE, kind in REOPENED_BY_NEW_EVIDENCE, provider, replaces),
    )
    if opened is not None:
        log.warning("case_opened", kind=kind, reference=reference, again=opened == "reopened")
        if environment is not Environment.SANDBOX:
            facts = {"kind": kind.replace("_", " "), "reference": reference, "detail": detail}
            await outbox.put(connection, MailKind.CASE_OPENED, facts, path="/console/cases")


async def cases(db: Database, *, include_resolved: bool = False) -> list[Case]:
    return await db.rows(
        Case,
        CASE + " WHERE $1 OR status = 'open' ORDER BY opened_at LIMIT 1000",
        include_resolved,
    )


class CaseNotFound(Refusal):
    status, code = 404, "CASE_NOT_FOUND"
    message = "There is no such case."


class CaseNotUnique(Refusal):
    status, code = 409, "CASE_NOT_UNIQUE"
    message = "Several merchants have a case with this number."

    def __init__(self, case_id: int, merchant_ids: Sequence[int]) -> None:
        *first, last = (str(each) for each in sorted(merchant_ids))
        super().__init__(
            f"The merchants {', '.join(first)} and {last} have a case {case_id}. Name the merchant:"
            f" `manilla case show {case_id} --merchant ID`, or"
            f" `/cases/{case_id}?merchant=ID` in the console. ID is 0 if the case has no merchant."
        )


class CaseRefused(Refusal):
    message = "The case cannot be resolved in this way."


def check_open(case: Case) -> None:
    if case.status != "open":
        raise CaseRefused(f"Case {case.id} is resolved already: {case.resolution}")


async def lock(connection: Connection, case: Case) -> Case:
    """Locks an open case. The caller must lock the case's transaction first."""
    current = await connection.row(
        Case,
        CASE + " WHERE merchant_id = $1 AND id = $2 FOR UPDATE",
        *(case.merchant_id, case.id),
    )
    assert current is not None
    check_open(current)
    return current


async def find(db: Database | Connection, case_id: int, *, merchant_id: int | None = None) -> Case:
    """Returns the case with this number. Raises `CaseNotUnique` if several merchants have one.

    Each cell numbers its cases, so the case of a merchant that moved to this cell can have the
    number of another merchant's case. 0 is the `merchant_id` of cases without a merchant.
    """
    found = await db.rows(
        Case,
        CASE + " WHERE id = $1 AND ($2::bigint IS NULL OR merchant_id = $2)",
        *(case_id, merchant_id),
    )
    if not found:
        raise CaseNotFound(f"There is no case {case_id}.")
    if len(found) > 1:
        raise CaseNotUnique(case_id, [case.merchant_id for case in found])
    return found[0]


async def history(db: Database, case: Case) -> list[CaseEvent]:
    return await db.rows(
        CaseEvent,
        f"""
        SELECT {columns(CaseEvent)} FROM case_event
         WHERE merchant_id = $1 AND case_id = $2 ORDER BY id""",
        *(case.merchant_id, case.id),
    )


async def close(
    connection: Connection, merchant_id: int, kind: CaseKind, reference: str, resolution: str
) -> None:
    """Closes an open case whose problem no longer exists."""
    case = await connection.row(
        Case,
        CASE + " WHERE (merchant_id, kind, reference, status) = ($1, $2, $3, 'open') FOR UPDATE",
        *(merchant_id, kind, reference),
    )
    if case is not None:
        await close_case(connection, case, resolution)


async def mark_vanished(
    db: Database,
    kind: CaseKind,
    reference: str,
    detail: str,
    *,
    merchant_id: int,
    is_vanished: bool,
) -> None:
    """Records in the open case, if there is one, that its problem has vanished or returned."""
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


async def is_open(db: Database, merchant_id: int, kind: CaseKind, reference: str) -> bool:
    return await db.has_row(
        """
        SELECT true FROM operator_case
         WHERE (merchant_id, kind, reference, status) = ($1, $2, $3, 'open')""",
        *(merchant_id, kind, reference),
    )


async def close_case(connection: Connection, case: Case, resolution: str) -> None:
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
