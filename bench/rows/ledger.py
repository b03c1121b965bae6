"""Payout debits in the ledger: over a thousand wallets, and all on one."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bench import baseline_seed, worker
from bench.comparisons import against_baseline, database_cpu_against_pgbench, rate_against_pgbench
from bench.frame import BASELINE, PRODUCT, Row, Target
from bench.pgbench import Script
from bench.stage import BASELINE_PYTHON, FOLDER, Stage
from bench.workers.ledger import AMOUNT_MINOR, FEE_MINOR
from manilla.kit import ids
from manilla.kit.money import Money
from manilla.ledger import queries as ledger
from manilla.ledger.posting import ADJUSTMENT, IN_FLIGHT, PAYOUT_FEE, Environment, Line, Posting
from manilla.merchants.queries import open_wallets

FIRST_MERCHANT = 1_000_000
WALLETS = 1000
SUBMITTERS = 64
ENOUGH_MINOR = 1_000_000_000_000
ONE_WALLET_RATE_MIN = 2.0

# One item a call, by the shortest way there is to the function. The ids are ordered by time, as the
# product's are, which spares the index. A refusal divides by zero, which ends pgbench.
ONE_BY_ONE = f"""\
\\set merchant random(:first, :last)
SELECT 1 / (outcome = 'posted')::integer
  FROM ledger_post(
       :merchant, ARRAY[1], ARRAY[uuidv7()::text], ARRAY['payout'], ARRAY['production'],
       ARRAY['NGN'], ARRAY[NULL]::text[], ARRAY[{-(AMOUNT_MINOR + FEE_MINOR)}]::bigint[],
       ARRAY['{IN_FLIGHT}'], ARRAY[{AMOUNT_MINOR}]::bigint[],
       ARRAY['{PAYOUT_FEE}'], ARRAY[{FEE_MINOR}]::bigint[]);
"""


def many_wallets(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return _opened(stage, "ledger-many", f"payout debits over {WALLETS:,} wallets", WALLETS, None)


def one_wallet(stage: Stage) -> AbstractAsyncContextManager[Row]:
    target = Target(ONE_WALLET_RATE_MIN)
    return _opened(stage, "ledger-one", "payout debits on one wallet", 1, target)


@asynccontextmanager
async def _opened(
    stage: Stage, name: str, title: str, wallets: int, target: Target | None
) -> AsyncIterator[Row]:
    await _fund(stage, wallets)
    await baseline_seed.seed(stage, FIRST_MERCHANT, wallets, ENOUGH_MINOR)
    variables = {"first": str(FIRST_MERCHANT), "last": str(FIRST_MERCHANT + wallets - 1)}
    pgbench = await stage.pgbench.contender(
        name, Script(ONE_BY_ONE, variables), clients=8 if stage.quick else None
    )
    order = {"first_merchant": FIRST_MERCHANT, "merchants": wallets, "submitters": SUBMITTERS}
    async with (
        worker.started("bench.workers.ledger", stage.environment()) as product,
        worker.started(
            "baseline.ledger", stage.baseline_environment(), str(BASELINE_PYTHON), FOLDER
        ) as baseline,
    ):
        yield Row(
            name=name,
            title=f"{title}, {SUBMITTERS} at a time",
            contenders=[
                product.contender(PRODUCT, order),
                pgbench,
                baseline.contender(BASELINE, order),
            ],
            comparisons=[
                rate_against_pgbench(target),
                database_cpu_against_pgbench(),
                *against_baseline(),
            ],
        )


async def _fund(stage: Stage, wallets: int) -> None:
    """Through the books, so that they would pass their check after the run."""
    merchants = range(FIRST_MERCHANT, FIRST_MERCHANT + wallets)
    async with stage.db.transaction() as connection:
        for merchant_id in merchants:
            await open_wallets(connection, merchant_id, Environment.PRODUCTION, ["NGN"])
        await ledger.post(connection, [_funding(merchant_id) for merchant_id in merchants])


def _funding(merchant_id: int) -> Posting:
    return Posting(
        merchant_id=merchant_id,
        trx_id=ids.new_trx_id(merchant_id),
        kind="funding",
        environment=Environment.PRODUCTION,
        wallet=Money("NGN", ENOUGH_MINOR),
        first=Line(ADJUSTMENT, -ENOUGH_MINOR),
    )
