"""Measures importing a provider's statement, and matching it with as many ledger movements."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bench import worker
from bench.comparisons import cost, growth
from bench.frame import Comparison, Contender, Row, Target
from bench.history import LARGE
from bench.stage import Stage

FEW, MANY = 100_000, 1_000_000
SHOWN = {FEW: "10⁵", MANY: "10⁶"}
MATCH_SECONDS_MAX = 60
GROWTH_MAX = 1.5
STEPS = ("import", "match")

# Of ten movements, seven are charges, two are payouts with a known provider reference, and one is a
# top-up, which can be matched only by amount and time. There is one movement every 0.8 seconds, and
# the newest is two days old. `bench.workers.reconcile` writes the matching statement.
MOVEMENTS = """
    CREATE TEMPORARY TABLE made AS
    SELECT n, 'TXN' || lpad(n::text, 30, '0') AS trx_id,
           CASE WHEN n % 10 < 7 THEN 'payment' WHEN n % 10 < 9 THEN 'payout_delivered'
                ELSE 'settle_top_up' END AS kind,
           CASE WHEN n % 10 IN (7, 8) THEN -n ELSE n END AS minor,
           date_trunc('day', now()) - interval '2 days' - n * interval '0.8 seconds' AS moment
      FROM generate_series(1, {number}) AS n;
    INSERT INTO posting (merchant_id, id, environment, currency, kind, trx_id, posted_at)
           OVERRIDING SYSTEM VALUE
    SELECT 0, n, 'production', 'NGN', kind, trx_id, moment FROM made ORDER BY n DESC;
    INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account, amount_minor)
    SELECT 0, n, line, 'production', 'NGN', account, amount_minor FROM made,
           LATERAL (VALUES (1, 'clearing:{provider}', -minor), (2, 'bank', minor))
           AS parts (line, account, amount_minor) ORDER BY n DESC;
    INSERT INTO payout (
           merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor, fee_minor,
           method_id, method_code, method_name, provider, provider_reference, beneficiary,
           account_name, description, ipn_url, remarks, created_at, updated_at)
    SELECT 0, trx_id, 'production', md5(n::text), 'completed', 'NGN', n, 0, 6,
           'providera_ngn_transfer', 'Provider A bank transfer', '{provider}', 'TRF_' || n,
           '{{"bank_code": "058", "account_number": "0123456789"}}', 'ADA OBI',
           'Two chairs and a table', 'https://shop.example/ipn', '', moment, moment
      FROM made WHERE minor < 0"""
# The movements from `{first}` on are older. Their statements were imported and matched earlier.
MATCHED = """
    INSERT INTO clearing_movement
           (merchant_id, posting_id, provider, currency, trx_id, kind, booked_at, amount_minor)
    SELECT 0, n, '{provider}', 'NGN', trx_id,
           CASE kind WHEN 'payment' THEN 'charge' WHEN 'settle_top_up' THEN 'settlement'
                     ELSE 'transfer' END, moment, minor
      FROM made WHERE n >= {first} ORDER BY n DESC;
    INSERT INTO statement_line
           (provider, line_id, booked_at, currency, amount_minor, kind, reference, trx_id,
            matched_by)
    SELECT '{provider}', 'old-' || n, moment, 'NGN', minor, 'charge', trx_id, trx_id, 'reference'
      FROM made WHERE n >= {first} ORDER BY n DESC"""
PROVIDER = "providera"
# A comparison reads the movements of the day before the statement, in a short history too.
NEW, SHORT = 20_000, 200_000


@asynccontextmanager
async def grown(stage: Stage) -> AsyncIterator[Row]:
    """Compares a new statement of the same length after a short and after a long history."""
    async with AsyncExitStack() as stack:
        names: list[str] = []
        contenders = []
        for number in (SHORT, max(SHORT, LARGE)):
            database = f"reconciled_{number}_{len(names)}"
            await stage.server.add_database(database)
            values = {"number": number, "provider": PROVIDER, "first": NEW + 1}
            filled = f"{MOVEMENTS};{MATCHED}".format(**values)
            await stage.server.execute(database, filled)
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
            comparisons=[cost("long / short", many, few, 1.1), *growth("long / short", few, many)],
            once=True,
        )


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
    movements = MOVEMENTS.format(number=number, provider=PROVIDER)
    await stage.server.execute(database, movements)
    environment = {**stage.environment(database), "BENCH_LINES": str(number)}
    product = await stack.enter_async_context(
        worker.started("bench.workers.reconcile", environment)
    )
    return [product.contender(_name(step, number), {"step": step}) for step in STEPS]


def _name(step: str, number: int) -> str:
    return f"{step} {SHOWN[number]} lines"
