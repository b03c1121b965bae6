"""Payout debits in the ledger, with a thousand wallets and with one wallet."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bench import worker
from bench.comparisons import against_baseline, database_cpu_against_pgbench, rate_against_pgbench
from bench.frame import BASELINE, PRODUCT, Row, Target
from bench.pgbench import Script
from bench.seed import FIRST_WALLET, WALLETS
from bench.stage import BASELINE_PYTHON, Stage
from bench.workers.ledger import AMOUNT_MINOR, FEE_MINOR
from manilla.ledger.posting import IN_FLIGHT, PAYOUT_FEE

SUBMITTERS = 64
ONE_WALLET_RATE_MIN = 2.0

# Each call passes one item directly to the SQL function. Ids are ordered by time, as in Manilla,
# because that makes index inserts faster. A rejected call divides by zero, which ends pgbench.
ONE_BY_ONE = f"""\
\\set merchant random(:first, :last)
SELECT 1 / (outcome = 'posted')::integer
  FROM ledger_post(
       ARRAY[1], ARRAY[:merchant]::bigint[], ARRAY[uuidv7()::text], ARRAY['payout'],
       ARRAY['production'], ARRAY['NGN'], ARRAY[NULL]::text[],
       ARRAY[{-(AMOUNT_MINOR + FEE_MINOR)}]::bigint[],
       ARRAY[1, 1], ARRAY['{IN_FLIGHT}', '{PAYOUT_FEE}'],
       ARRAY[{AMOUNT_MINOR}, {FEE_MINOR}]::bigint[]);
"""


def many_wallets(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return _opened(stage, "ledger-many", f"{WALLETS:,} wallets", WALLETS, None)


def one_wallet(stage: Stage) -> AbstractAsyncContextManager[Row]:
    target = Target(ONE_WALLET_RATE_MIN)
    return _opened(stage, "ledger-one", "one wallet", 1, target)


@asynccontextmanager
async def _opened(
    stage: Stage, name: str, title: str, wallets: int, target: Target | None
) -> AsyncIterator[Row]:
    script = Script(
        ONE_BY_ONE,
        count="SELECT coalesce(pg_sequence_last_value('posting_id_seq'), 0)",
        variables={"first": str(FIRST_WALLET), "last": str(FIRST_WALLET + wallets - 1)},
    )
    order = {"first_wallet": FIRST_WALLET, "wallets": wallets, "submitters": SUBMITTERS}
    async with (
        worker.started("bench.workers.ledger", stage.environment()) as product,
        worker.started(
            "baseline.ledger", stage.baseline_environment(), str(BASELINE_PYTHON)
        ) as baseline,
        stage.pgbench.started(script) as pgbench,
    ):
        yield Row(
            name=name,
            title=title,
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
