"""Measures how many payouts per second one worker sends to a provider that responds instantly.

The rate must stay the same beside a provider that hangs, and beside a merchant's long queue.
"""

import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from bench import merchants, seed, worker
from bench.comparisons import speed
from bench.frame import PRODUCT, Comparison, Contender, Row, Target, Work
from bench.merchants import Seeded
from bench.rows.initiate_payout import METHOD, PROVIDER, parts_of_item
from bench.stage import Stage
from bench.workers import COUNTED_FROM
from manilla.cli.running.programs import listen
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.embedded import process
from manilla.kit.embedded.process import Program
from manilla.kit.environment import Environment
from manilla.methods import catalogue
from manilla.providers import credentials

RATE_MIN, OTHERS_RATE_MIN = 3500, 0.9
MERCHANTS, PAYOUTS_EACH = 200, 150  # more payouts than the worker can send during the measurement
SILENT_PROVIDER, SILENT_METHOD = "providerb", "providerb_ngn_transfer"
SILENT_MERCHANTS = 20
QUEUE, TAKEN_AT_ONCE = 100_000, 500
ANYWHERE = "0.0.0.0"
# Payouts that were accepted in an earlier block are not queried in this one.
NO_QUERIES = """
    UPDATE job SET due_at = now() + interval '1 hour'
      FROM payout
     WHERE payout.merchant_id = job.merchant_id AND trx_id = subject AND accepted_at IS NOT NULL"""
# Creates the payouts of others, whose sending is not counted.
Beside = Callable[[Database, Keyring], Awaitable[None]]

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
    async with AsyncExitStack() as stack:
        ports = {
            PROVIDER: await stack.enter_async_context(receiver(stage, "provider")),
            SILENT_PROVIDER: stack.enter_context(silent_port()),
        }
        contenders = [
            await stack.enter_async_context(
                _worker(stage, name, f"disburse_{number}", ports, beside)
            )
            for number, (name, beside) in enumerate({PRODUCT: None, **BESIDE}.items())
        ]
        yield Row(
            name="disburse",
            title="",
            contenders=contenders,
            comparisons=[
                rate("payouts a second", Target(RATE_MIN)),
                *(
                    speed(f"{name} / alone", name, PRODUCT, Target(OTHERS_RATE_MIN))
                    for name in BESIDE
                ),
            ],
        )


@contextmanager
def silent_port() -> Iterator[int]:
    """Opens a port on which the kernel accepts connections but no program responds."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        yield listener.getsockname()[1]


@asynccontextmanager
async def _worker(
    stage: Stage, name: str, database: str, ports: Mapping[str, int], beside: Beside | None
) -> AsyncIterator[Contender]:
    """Runs a worker, which counts only the payouts that are not due because of `beside`."""
    environment = stage.environment(database)
    environment[COUNTED_FROM] = str(await _seed(stage, database, ports, beside))
    async with worker.started("bench.workers.disburse", environment) as product:
        sending = product.contender(name, {})

        async def run(seconds: float) -> Work:
            await stage.server.execute(database, NO_QUERIES)
            return await sending.run(seconds)

        yield Contender(name, run, sending.pid)


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


async def _seed(
    stage: Stage, database: str, ports: Mapping[str, int], beside: Beside | None
) -> int:
    """Creates pending payouts, and returns the first of their merchants."""
    await stage.server.add_database(database)
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    db = await Database.open(stage.server.url(database), size=1, name="bench", statement_seconds=60)
    try:
        await seed.product(db, keyring)
        for provider, port in ports.items():
            address = {"base_url": f"http://127.0.0.1:{port}"}
            await credentials.change(db, keyring, provider, address)
        if beside is not None:
            await beside(db, keyring)
        seeded = await merchants.add(db, keyring, MERCHANTS, Environment.PRODUCTION)
        await take(db, seeded)
        return seeded[0].id
    finally:
        await db.close()


async def _hanging(db: Database, keyring: Keyring) -> None:
    seeded = await merchants.add(db, keyring, SILENT_MERCHANTS, Environment.PRODUCTION)
    await take(db, seeded, code=SILENT_METHOD)


async def _long_queue(db: Database, keyring: Keyring) -> None:
    seeded = await merchants.add(db, keyring, 1, Environment.PRODUCTION)
    for _ in range(QUEUE // TAKEN_AT_ONCE):
        await take(db, seeded, TAKEN_AT_ONCE)


BESIDE: dict[str, Beside] = {
    "beside a provider that hangs": _hanging,
    f"beside a merchant with {QUEUE:,} due payouts": _long_queue,
}


async def take(
    db: Database, seeded: Sequence[Seeded], each: int = PAYOUTS_EACH, code: str = METHOD
) -> None:
    """Creates pending payouts of these merchants, whose ids are consecutive."""
    [method] = [found for found in await catalogue.load(db) if found.code == code]
    parts = await parts_of_item(Environment.PRODUCTION, method)
    taken = await db.value(TAKE, seeded[0].id, seeded[-1].id, each, parts)
    assert taken == len(seeded) * each
