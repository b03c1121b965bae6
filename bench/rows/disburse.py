"""Measures how many payouts per second one worker sends to a provider that responds instantly."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench import merchants, seed, worker
from bench.frame import PRODUCT, Comparison, Row, Target
from bench.merchants import Seeded
from bench.rows.initiate_payout import METHOD, PROVIDER, parts_of_item
from bench.stage import Stage
from manilla.cli.running.programs import listen
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.embedded import process
from manilla.kit.embedded.process import Program
from manilla.kit.environment import Environment
from manilla.methods import catalogue
from manilla.providers import credentials

DATABASE = "disburse"
RATE_MIN = 3500
MERCHANTS, PAYOUTS_EACH = 200, 150  # more payouts than the worker can send during the measurement
ANYWHERE = "0.0.0.0"

# Creates the payouts in batches, as Manilla does.
TAKE = """
    SELECT count(*)
      FROM generate_series($1::bigint, $2) AS merchant,
           LATERAL payout_initiate(
               (SELECT jsonb_agg(
                       jsonb_set(((($4::text[])[1] || gen_random_uuid() || ($4::text[])[2]
                                   || merchant || ($4::text[])[3] || 'TXN' || uuidv7()
                                   || ($4::text[])[4] || 'bench' || ($4::text[])[5])::jsonb) -> 0,
                                 '{item}', to_jsonb(n)))
                  FROM generate_series(1, $3::integer) AS n),
               '1 day') AS taken
     WHERE taken.outcome = 'created'"""


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    async with receiver(stage, "provider") as port:
        await _seed(stage, port)
        environment = stage.environment(DATABASE)
        async with worker.started("bench.workers.disburse", environment) as product:
            yield Row(
                name="disburse",
                title="",
                contenders=[product.contender(PRODUCT, {})],
                comparisons=[rate("payouts a second", Target(RATE_MIN))],
            )


def rate(name: str, target: Target) -> Comparison:
    """Reports an absolute rate instead of a ratio."""
    return Comparison(name, lambda blocks: blocks[PRODUCT].rate, target)


@asynccontextmanager
async def receiver(stage: Stage, kind: str) -> AsyncIterator[int]:
    """Starts an HTTP receiver in a separate process and returns its port."""
    with listen(ANYWHERE, 0) as listener:
        program = Program(
            name=f"receiver-{kind}",
            command=[
                *(sys.executable, "-m", "bench.workers.receiver", kind),
                str(listener.fileno()),
            ],
            environment=stage.environment(),
            log_file=stage.server.folder / f"receiver-{kind}.log",
            sockets=[listener],
        )
        running = await process.spawn(program)
        try:
            yield listener.getsockname()[1]
        finally:
            await process.end(running, program)


async def _seed(stage: Stage, port: int) -> None:
    await stage.server.add_database(DATABASE)
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    db = await Database.open(stage.server.url(DATABASE), size=1, name="bench", statement_seconds=60)
    try:
        await seed.product(db, keyring)
        address = {"base_url": f"http://127.0.0.1:{port}"}
        await credentials.change(db, keyring, PROVIDER, address)
        seeded = await merchants.add(db, keyring, MERCHANTS, Environment.PRODUCTION)
        await take(db, seeded)
    finally:
        await db.close()


async def take(db: Database, seeded: Sequence[Seeded], each: int = PAYOUTS_EACH) -> None:
    """Creates pending payouts of these merchants, whose ids are consecutive."""
    [method] = [found for found in await catalogue.load(db) if found.code == METHOD]
    parts = await parts_of_item(Environment.PRODUCTION, method)
    taken = await db.value(TAKE, seeded[0].id, seeded[-1].id, each, parts)
    assert taken == len(seeded) * each
