"""Measures importing a provider's statement, and matching it with as many ledger movements."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from bench import worker
from bench.comparisons import buffers, cost, database_cpu, growth
from bench.frame import Comparison, Contender, Row, Target
from bench.history import FINISH, LARGE, fill
from bench.stage import Stage
from manilla.kit.database.connections import Database
from manilla.kit.embedded.postgres import SUPERUSER
from manilla.ledger import clearing
from manilla.proofs import chain

FEW, MANY = 100_000, 1_000_000
SHOWN = {FEW: "10⁵", MANY: "10⁶"}
MATCH_SECONDS_MAX = 60
GROWTH_MAX = 1.5
COST_MAX = 1.1
STEPS = ("import", "match")

# Of ten movements, seven are charges, two are payouts with a known provider reference, and one is a
# top-up, which can be matched only by amount and time. There is one movement every 0.8 seconds, and
# the newest is two days old. `bench.workers.reconcile` writes the matching statement.
MADE = """
    CREATE SCHEMA loading;
    CREATE UNLOGGED TABLE loading.made AS
    SELECT n, 'TXN' || lpad(n::text, 30, '0') AS trx_id,
           CASE WHEN n % 10 < 7 THEN 'payment' WHEN n % 10 < 9 THEN 'payout_delivered'
                ELSE 'settle_top_up' END AS kind,
           CASE WHEN n % 10 IN (7, 8) THEN -n ELSE n END AS minor,
           date_trunc('day', now()) - interval '2 days' - n * interval '0.8 seconds' AS moment
      FROM generate_series({number}, 1, -1) AS n;
    -- The type is that of `entry.account`, so that the accounts are not checked once per row.
    CREATE UNLOGGED TABLE loading.line (line integer, account ledger_account, times integer);
    INSERT INTO loading.line VALUES (1, 'clearing:{provider}', -1), (2, 'bank', 1);
    ANALYZE loading.made, loading.line"""
MOVEMENTS = {
    "posting": """
        INSERT INTO posting (merchant_id, id, environment, currency, kind, trx_id, posted_at)
               OVERRIDING SYSTEM VALUE
        SELECT 0, n, 'production', 'NGN', kind, trx_id, moment FROM loading.made""",
    "entry": """
        INSERT INTO entry
               (merchant_id, posting_id, line, environment, currency, account, amount_minor)
        SELECT 0, n, line, 'production', 'NGN', account, times * minor
          FROM loading.made CROSS JOIN loading.line""",
    "payout": """
        INSERT INTO payout (
               merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor, fee_minor,
               method_id, method_code, method_name, provider, provider_reference, beneficiary,
               account_name, description, ipn_url, remarks, created_at, updated_at)
        SELECT 0, trx_id, 'production', md5(n::text), 'completed', 'NGN', n, 0, 6,
               'providera_ngn_transfer', 'Provider A bank transfer', '{provider}', 'TRF_' || n,
               '{{"bank_code": "058", "account_number": "0123456789"}}', 'ADA OBI',
               'Two chairs and a table', 'https://shop.example/ipn', '', moment, moment
          FROM loading.made WHERE minor < 0""",
}
# The movements from `{first}` on are older. Their statements were imported and matched earlier.
MATCHED = {
    "clearing_movement": """
        INSERT INTO clearing_movement
               (merchant_id, posting_id, provider, currency, trx_id, kind, booked_at, amount_minor)
        SELECT 0, n, '{provider}', 'NGN', trx_id,
               CASE kind WHEN 'payment' THEN 'charge' WHEN 'settle_top_up' THEN 'settlement'
                         ELSE 'transfer' END, moment, minor
          FROM loading.made WHERE n >= {first}""",
    "statement_line": """
        INSERT INTO statement_line
               (provider, line_id, booked_at, currency, amount_minor, kind, reference, trx_id,
                matched_by)
        SELECT '{provider}', 'old-' || n, moment, 'NGN', minor, 'charge', trx_id, trx_id,
               'reference'
          FROM loading.made WHERE n >= {first}""",
}
PROVIDER = "providera"
# The short history is longer than the days before the statement whose movements are copied.
NEW, SHORT = 20_000, 400_000


@asynccontextmanager
async def grown(stage: Stage) -> AsyncIterator[Row]:
    """Compares a new statement of the same length after a short and after a long history."""
    async with AsyncExitStack() as stack:
        names: list[str] = []
        contenders = []
        for number in (SHORT, max(SHORT, LARGE)):
            database = f"reconciled_{number}_{len(names)}"
            await stage.server.add_database(database)
            async with stage.server.loading():
                await _load(stage, database, number, {**MOVEMENTS, **MATCHED})
                await _add_totals(stage, database)
                await stage.server.execute(database, "VACUUM (ANALYZE)")
            size = {"BENCH_LINES": str(NEW), "BENCH_DAYS": "3"}
            environment = {**stage.environment(database), **size}
            product = await stack.enter_async_context(
                worker.started("bench.workers.reconcile", environment)
            )
            names.append(f"after {number:,} movements")
            for step in STEPS:
                shown = names[-1] if step == "match" else f"{step} {names[-1]}"
                contenders.append(product.contender(shown, {"step": step}))
        few, many = names
        yield Row(
            name="growth-reconcile",
            title=f"a statement of {NEW:,} lines",
            contenders=contenders,
            comparisons=[
                cost("long / short", many, few, COST_MAX),
                database_cpu("long / short", many, few),
                buffers("long / short", many, few),
            ],
            once=True,
            counted=True,
        )


async def _add_totals(stage: Stage, database: str) -> None:
    """Adds the movements to the hash chain and to the stored totals, as the worker does."""
    await stage.server.execute(database, FINISH)
    db = await Database.open(
        stage.server.url(database), size=2, name="bench", statement_seconds=900
    )
    try:
        await chain.extend(db)
        await clearing.add_final_postings(db)
    finally:
        await db.close()


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    async with AsyncExitStack() as stack:
        contenders = [
            contender for number in SHOWN for contender in await _contenders(stage, stack, number)
        ]
        few, many = (_name("match", number) for number in SHOWN)
        yield Row(
            name="reconcile",
            title="",
            contenders=contenders,
            comparisons=[
                Comparison(
                    f"seconds to match {SHOWN[MANY]} lines",
                    lambda blocks: MANY / blocks[many].rate,
                    Target(MATCH_SECONDS_MAX, at_most=True),
                ),
                *growth(
                    f"match {SHOWN[MANY]} / {SHOWN[FEW]}",
                    *(few, many, Target(GROWTH_MAX, at_most=True)),
                ),
            ],
            once=True,
        )


async def _contenders(stage: Stage, stack: AsyncExitStack, number: int) -> list[Contender]:
    """Creates the contenders for importing and matching, on a database with `number` movements."""
    database = f"reconcile_{number}"
    await stage.server.add_database(database)
    await _load(stage, database, number, MOVEMENTS)
    environment = {**stage.environment(database), "BENCH_LINES": str(number)}
    product = await stack.enter_async_context(
        worker.started("bench.workers.reconcile", environment)
    )
    return [product.contender(_name(step, number), {"step": step}) for step in STEPS]


async def _load(stage: Stage, database: str, number: int, inserts: Mapping[str, str]) -> None:
    names = {"number": number, "provider": PROVIDER, "first": NEW + 1}
    await stage.server.execute(database, MADE.format(**names))
    filled = {table: sql.format(**names) for table, sql in inserts.items()}
    await fill(stage.server.cluster.url(SUPERUSER, database), filled)
    await stage.server.execute(database, "DROP SCHEMA loading CASCADE")


def _name(step: str, number: int) -> str:
    return f"{step} {SHOWN[number]} lines"
