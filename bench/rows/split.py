"""Compares the credit of a payment for three receivers with the credit of an ordinary one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench import comparisons, merchants, seed, worker
from bench.frame import Comparison, Row, Target
from bench.rows.one_merchant import CHARGES, PAYMENTS
from bench.stage import Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.splits import planning
from manilla.splits.share import Division, PlannedShare

DATABASE = "split"
ROUNDS = 3
NUMBER = 20_000  # more payments of each owner than the product can credit in the measurement
COST_MAX, RATE_MIN = 1.3, 1000


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    owners = await _seed(stage)
    async with worker.started("bench.workers.settle", stage.environment(DATABASE)) as product:
        contenders = [
            product.contender(name, {"step": "credit", "merchant_id": owner})
            for name, owner in owners.items()
        ]
        for each in contenders:
            await each.run(stage.plan.warm_seconds)
        yield Row(
            name="split",
            title="payments of one owner, with three receivers or none",
            contenders=contenders,
            comparisons=[
                comparisons.cost("split / unsplit", "split", "unsplit", COST_MAX),
                Comparison("a second", lambda blocks: blocks["split"].rate, Target(RATE_MIN)),
            ],
            rounds=ROUNDS,
        )


async def _seed(stage: Stage) -> dict[str, int]:
    """Creates open payments, and returns the owners of those with and without a split."""
    await stage.server.add_database(DATABASE)
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    db = await Database.open(
        stage.server.url(DATABASE), size=1, name="bench", statement_seconds=300
    )
    try:
        await seed.product(db, keyring)
        seeded = await merchants.add(db, keyring, 5, Environment.PRODUCTION)
        unsplit, split, *receivers = [each.id for each in seeded]
        for owner in (unsplit, split):
            ids = [trx_ids.new(owner) for _ in range(NUMBER)]
            texts = [_division(receivers) for _ in ids] if owner == split else None
            payments = PAYMENTS if texts is None else _WITH_SPLIT
            await db.execute(payments, owner, ids, *([] if texts is None else [texts]))
            await db.execute(CHARGES, owner, ids)
    finally:
        await db.close()
    return {"unsplit": unsplit, "split": split}


# How a payment is divided never changes, so it is inserted with the payment.
_WITH_SPLIT = PAYMENTS.replace("expires_at)", "expires_at, split)").replace(
    "now() + interval '1 hour'\n      FROM unnest($2::text[]) AS id",
    "now() + interval '1 hour', division::jsonb\n"
    "      FROM unnest($2::text[], $3::text[]) AS u (id, division)",
)


def _division(receivers: list[int]) -> str:
    shares = [PlannedShare(str(each), each, trx_ids.new(each), 10_000) for each in receivers]
    plan = Division(
        id=None,
        version=None,
        owner_minor=70_000,
        rest="owner",
        refunds="proportional",
        disputes="proportional",
        hold="none",
        shares=shares,
    )
    return planning.encode(plan)
