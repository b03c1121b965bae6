"""Payouts that a user orders in the dashboard, through the same use case as the API."""

import msgspec

from manilla.audit import audit
from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.kit.ratelimit import RateTicket
from manilla.ledger.idempotency import Replayed
from manilla.merchants.directory import Caller
from manilla.payouts.initiate import PayoutInitiation, PayoutOrder


class _Answered(msgspec.Struct, frozen=True):
    trx_id: str


async def order(
    db: Database,
    initiation: PayoutInitiation,
    caller: Caller,
    wanted: PayoutOrder,
    ticket: RateTicket,
) -> str:
    """Creates the payout, writes the audit log and returns the payout's id."""
    trx_id = await place(initiation, caller, wanted, ticket)
    # The payout already records who ordered it, in the same transaction as the debit.
    async with db.transaction() as connection:
        await audit.record(
            connection,
            "payout.order",
            f"payout:{trx_id}",
            merchant_id=caller.merchant_id,
            environment=caller.environment,
            ref_trx=wanted.ref_trx,
            amount=Money.of(wanted.payout_amount, wanted.currency_code),
        )
    return trx_id


async def place(
    initiation: PayoutInitiation, caller: Caller, wanted: PayoutOrder, ticket: RateTicket
) -> str:
    """Returns the payout's id; an order repeated with the same key returns the first one's id."""
    assert wanted.ordered_by is not None
    answer = await initiation.initiate(caller, wanted, ticket)
    if isinstance(answer, Replayed):
        return msgspec.json.decode(answer.body, type=_Answered).trx_id
    return answer.trx_id
