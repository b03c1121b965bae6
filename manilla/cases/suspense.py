"""Releases money in suspense when an administrator has decided who owns it."""

from enum import StrEnum

import msgspec

from manilla.kit.db import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting, timeline
from manilla.ledger import queries as ledger
from manilla.ledger.posting import Line, Posting, PostingOutcome


class NothingThere(Refusal):
    message = "There is no money in suspense for this case."


class WalletFull(Refusal):
    message = "The wallet would exceed the maximum balance. Nothing was moved."


class Action(StrEnum):
    """What to do with the money that a case is about."""

    NOTHING = "nothing"
    # For money in suspense:
    CREDIT = "credit"  # it belongs to the merchant
    RETURN = "return"  # it goes back to the payer, through the provider
    KEEP = "keep"  # nobody claims it
    # For a contradiction:
    WRITE_OFF = "write_off"  # the provider has it, and the platform bears the loss
    DEBIT = "debit"  # the provider has it, and the merchant pays for it
    REVERSE = "reverse"  # the payout came back and is reversed


WAYS = {
    Action.CREDIT: "It belongs to the merchant: the full amount is credited to the wallet.",
    Action.RETURN: "It goes back to the payer: first refund it manually at the provider.",
    Action.KEEP: "Nobody claims it: it is posted as the platform's own money (adjustment).",
}


class _Held(msgspec.Struct, frozen=True):
    environment: str
    currency: str
    amount_minor: int
    clearing: str


async def release(
    connection: Connection, merchant_id: int, reference: str, action: Action, why: str
) -> None:
    """Releases the money once: a second call raises `NothingThere`."""
    held = await _held(connection, merchant_id, reference)
    if held is None:
        raise NothingThere
    amount = Money(held.currency, held.amount_minor)
    to = {Action.RETURN: held.clearing, Action.KEEP: posting.ADJUSTMENT}.get(action)
    [posted] = await ledger.post(
        connection,
        [
            Posting(
                merchant_id=merchant_id,
                trx_id=reference,
                kind="suspense_released",
                environment=Environment(held.environment),
                wallet=amount if to is None else Money(amount.currency, 0),
                lines=(
                    Line(posting.SUSPENSE, -amount.minor),
                    *(() if to is None else (Line(to, amount.minor),)),
                ),
                reason=why,
            )
        ],
    )
    if posted.outcome is PostingOutcome.BALANCE_LIMIT:
        raise WalletFull
    if posted.outcome is not PostingOutcome.POSTED:
        raise NothingThere(f"The money could not be released: {posted.outcome}.")
    await note(connection, merchant_id, reference, f"suspense_{action}", f"{amount}, {why}")


async def is_held(connection: Connection | Database, merchant_id: int, reference: str) -> bool:
    return await _held(connection, merchant_id, reference) is not None


async def released(db: Connection | Database, merchant_id: int, reference: str) -> Action | None:
    """Returns what was done with the money; None if it is not decided."""
    account: str | None = await db.value(
        """
        SELECT e.account FROM posting p
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
         WHERE p.merchant_id = $1 AND p.trx_id = $2 AND p.kind = 'suspense_released'
           AND e.account <> 'suspense'""",
        *(merchant_id, reference),
    )
    if account is None:
        return None
    if account == "wallet":
        return Action.CREDIT
    return Action.RETURN if account.startswith("clearing:") else Action.KEEP


async def _held(
    connection: Connection | Database, merchant_id: int, reference: str
) -> _Held | None:
    return await connection.row(
        _Held,
        """
        SELECT p.environment, p.currency, s.amount_minor, c.account AS clearing
          FROM posting p
          JOIN entry s ON s.merchant_id = p.merchant_id AND s.posting_id = p.id
               AND s.account = 'suspense'
          JOIN entry c ON c.merchant_id = p.merchant_id AND c.posting_id = p.id
               AND c.account LIKE 'clearing:%'
         WHERE p.merchant_id = $1 AND p.trx_id = $2 AND p.kind = 'suspense'
           AND NOT EXISTS (SELECT FROM posting r
                            WHERE r.merchant_id = $1 AND r.trx_id = $2
                              AND r.kind = 'suspense_released')""",
        *(merchant_id, reference),
    )


async def note(
    connection: Connection, merchant_id: int, reference: str, event: str, detail: str
) -> None:
    """Adds an event to the timeline of the charge's payment, and locks the payment's row for it.

    A charge's reference is the payment's id and a number.
    """
    trx_id = reference.partition("-")[0]
    status = await connection.value(
        "SELECT status FROM payment WHERE merchant_id = $1 AND trx_id = $2 FOR UPDATE",
        *(merchant_id, trx_id),
    )
    if status is not None:
        await timeline.add(
            connection,
            merchant_id,
            trx_id,
            event,
            before=status,
            after=status,
            detail=f"charge {reference}: {detail}",
        )
