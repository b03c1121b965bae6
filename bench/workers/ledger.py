"""Debits payouts through Manilla's batcher, submitted by concurrent callers."""

import asyncio
import os
import random
import sys
import time
from functools import partial

import msgspec
import uvloop

from bench.frame import Work
from manilla.kit.batch import Batcher
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import posting, trx_ids
from manilla.ledger.posting import (
    IN_FLIGHT,
    PAYOUT_FEE,
    Line,
    Posted,
    Posting,
    PostingOutcome,
)
from manilla.posting_kinds import PostingKind

CONNECTIONS = 10  # the number of connections of an API process
AMOUNT_MINOR, FEE_MINOR = 1000, 10


class Order(msgspec.Struct, frozen=True):
    seconds: float
    first_wallet: int
    wallets: int
    submitters: int


async def main() -> None:
    db = await Database.open(os.environ["MANILLA_DATABASE_URL"], size=CONNECTIONS, name="bench")
    batcher: Batcher[Posting, Posted] = Batcher(partial(posting.post, db))
    print("{}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        work = await _work(batcher, msgspec.json.decode(line, type=Order))
        print(msgspec.json.encode(work).decode(), flush=True)
    await db.close()


async def _work(batcher: Batcher[Posting, Posted], order: Order) -> Work:
    began = time.monotonic()
    counts = await asyncio.gather(
        *(_submit(batcher, order, began + order.seconds) for _ in range(order.submitters))
    )
    return Work(sum(counts), time.monotonic() - began)


async def _submit(batcher: Batcher[Posting, Posted], order: Order, deadline: float) -> int:
    done = 0
    while time.monotonic() < deadline:
        merchant_id = order.first_wallet + random.randrange(order.wallets)
        posted = await batcher.submit(_payout(merchant_id))
        assert posted.outcome is PostingOutcome.POSTED
        done += 1
    return done


def _payout(merchant_id: int) -> Posting:
    return Posting(
        merchant_id=merchant_id,
        trx_id=trx_ids.new(merchant_id),
        kind=PostingKind.PAYOUT,
        environment=Environment.PRODUCTION,
        wallet=Money("NGN", -(AMOUNT_MINOR + FEE_MINOR)),
        lines=(Line(IN_FLIGHT, AMOUNT_MINOR), Line(PAYOUT_FEE, FEE_MINOR)),
    )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
