"""Debits payouts as a typical team does it: lock, check, insert, insert, update, commit."""

import asyncio
import json
import random
import sys
import time
import uuid

import uvloop
from baseline.database import new_session
from baseline.models import Entry, Posting, Wallet
from sqlalchemy import select

AMOUNT_MINOR, FEE_MINOR = 1000, 10
ENVIRONMENT, CURRENCY = "production", "NGN"


async def post_payout(merchant_id: int, trx_id: str) -> None:
    async with new_session() as db, db.begin():
        wallet = (
            await db.scalars(
                select(Wallet)
                .where(
                    Wallet.merchant_id == merchant_id,
                    Wallet.environment == ENVIRONMENT,
                    Wallet.currency == CURRENCY,
                )
                .with_for_update()
            )
        ).one()
        payable_minor = AMOUNT_MINOR + FEE_MINOR
        if wallet.balance_minor < payable_minor:
            raise ValueError("The wallet cannot cover the payout and its fee.")
        wallet.balance_minor -= payable_minor
        posting = Posting(
            merchant_id=merchant_id,
            environment=ENVIRONMENT,
            currency=CURRENCY,
            kind="payout",
            trx_id=trx_id,
        )
        db.add(posting)
        await db.flush()
        db.add_all(
            [
                _entry(posting, 1, "wallet", -payable_minor, wallet.balance_minor),
                _entry(posting, 2, "in_flight", AMOUNT_MINOR),
                _entry(posting, 3, "payout_fee", FEE_MINOR),
            ]
        )


def _entry(
    posting: Posting, line: int, account: str, amount_minor: int, balance_minor: int | None = None
) -> Entry:
    return Entry(
        posting_id=posting.id,
        line=line,
        merchant_id=posting.merchant_id,
        environment=posting.environment,
        currency=posting.currency,
        account=account,
        amount_minor=amount_minor,
        balance_minor=balance_minor,
    )


async def _submit(order: dict, deadline: float) -> int:
    done = 0
    while time.monotonic() < deadline:
        merchant_id = order["first_wallet"] + random.randrange(order["wallets"])
        # Ids are ordered by time, as in Manilla, because that makes index inserts faster.
        await post_payout(merchant_id, f"TXN{time.time_ns()}{uuid.uuid4().hex[:12]}")
        done += 1
    return done


async def main() -> None:
    print("{}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        began = time.monotonic()
        counts = await asyncio.gather(
            *(_submit(order, began + order["seconds"]) for _ in range(order["submitters"]))
        )
        work = {"done": sum(counts), "seconds": time.monotonic() - began}
        print(json.dumps(work), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
