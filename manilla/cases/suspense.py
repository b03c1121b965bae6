"""Money in suspense: whose it is, a person has decided."""

from enum import StrEnum

import msgspec

from manilla.kit.db import Connection
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting, timeline
from manilla.ledger import queries as ledger
from manilla.ledger.posting import Environment, Line, Outcome, Posting


class NothingThere(Refusal):
    message = "There is no money in suspense for this case."


class Action(StrEnum):
    """What is done with money that a case keeps in suspense."""

    NOTHING = "nothing"
    CREDIT = "credit"  # it is the merchant's
    RETURN = "return"  # it goes back to who paid it, through the provider


class _Held(msgspec.Struct, frozen=True):
    environment: str
    currency: str
    amount_minor: int
    clearing: str


async def release(connection: Connection, merchant_id: int, reference: str, action: Action) -> None:
    """Once: whichever was done first, the other finds that nothing is left."""
    held = await _held(connection, merchant_id, reference)
    if held is None:
        raise NothingThere
    amount = Money(held.currency, held.amount_minor)
    is_credit = action is Action.CREDIT
    [posted] = await ledger.post(
        connection,
        [
            Posting(
                merchant_id=merchant_id,
                trx_id=reference,
                kind="suspense_released",
                environment=Environment(held.environment),
                wallet=amount if is_credit else Money(amount.currency, 0),
                first=Line(posting.SUSPENSE, -amount.minor),
                second=None if is_credit else Line(held.clearing, amount.minor),
            )
        ],
    )
    if posted.outcome is not Outcome.POSTED:
        raise NothingThere(f"The money could not be released: {posted.outcome}.")
    await _note(connection, merchant_id, reference, action, amount)


async def is_held(connection: Connection, merchant_id: int, reference: str) -> bool:
    return await _held(connection, merchant_id, reference) is not None


async def _held(connection: Connection, merchant_id: int, reference: str) -> _Held | None:
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


async def _note(
    connection: Connection, merchant_id: int, reference: str, action: Action, amount: Money
) -> None:
    """A charge is numbered after its payment, whose row is held while its timeline is written."""
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
            f"suspense_{action}",
            before=status,
            after=status,
            detail=f"charge {reference}: {amount}",
        )
