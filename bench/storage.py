"""Measures what a transaction stores and writes to the WAL: `python -m bench.storage`.

Manilla runs as in production. Payouts and then payments go through all their steps, until the last
delivery. The report shows the bytes per transaction of each table, index and column, and how many
updates were heap-only (HOT).
"""

import argparse
import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack

import asyncpg
import msgspec

from bench import worker
from bench.frame import Plan
from bench.life import installation
from bench.life.installation import THIS, Running
from bench.seed import product
from bench.server import private_server
from bench.stage import Stage
from bench.worker import Worker
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.embedded.postgres import SUPERUSER

DATABASE = "storage"
CHUNK = 1000  # a transaction must be delivered within a minute after the one before it
WARM_UP = 200
MERCHANTS = 6  # so that each merchant has many pages of each index
CALLERS = 8
PLAN = Plan(rounds=1, block_seconds=1, warm_seconds=0, clients=(1,))
# Rows of these tables are deleted when their work is done, so that the tables do not grow.
QUEUES = ("job", "rate_window")
SHOWN_BYTES_MIN = 0.5
REBUILT_BYTES_MIN = 10
BYTES_PER_MILLION = 1_000_000 / 1e9

SIZES = f"""
    SELECT c.relname AS name, coalesce(i.indrelid, c.oid)::regclass::text AS of_table,
           pg_relation_size(c.oid)
           + CASE WHEN c.reltoastrelid <> 0 THEN pg_total_relation_size(c.reltoastrelid) ELSE 0 END
           AS bytes, s.idx_scan AS scans
      FROM pg_class c
      LEFT JOIN pg_index i ON i.indexrelid = c.oid
      LEFT JOIN pg_stat_user_indexes s ON s.indexrelid = c.oid
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'i')
       AND coalesce(i.indrelid, c.oid)::regclass::text NOT IN {QUEUES}"""
UPDATES = """
    SELECT relname AS name, n_tup_upd AS updates, n_tup_hot_upd AS hot FROM pg_stat_user_tables
     WHERE n_tup_upd > 0 AND schemaname = 'public'"""
COLUMNS = """
    SELECT attname AS name FROM pg_attribute
     WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
IS_QUIET = """
    SELECT NOT EXISTS (
           SELECT FROM job WHERE kind IN ('transfer', 'charge', 'notify', 'endpoint'))"""


class Relation(msgspec.Struct, frozen=True):
    table: str
    bytes: int
    scans: int | None


Sizes = Mapping[str, Relation]


async def measure(number: int) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(private_server())
        key = crypto.generate_key()
        db = await Database.open(server.url(), size=2, name="bench")
        stack.push_async_callback(db.close)
        merchant = await product(db, Keyring([crypto.decode_key(key)]))
        stage = Stage(server, PLAN, db, merchant, key)
        world = await stack.enter_async_context(
            worker.started("bench.life.world", stage.environment())
        )
        running = await stack.enter_async_context(
            installation.running(stage, THIS, DATABASE, world.started["url"], MERCHANTS)
        )
        connection = await asyncpg.connect(server.cluster.url(SUPERUSER, DATABASE))
        stack.push_async_callback(connection.close)
        total = 0.0
        for kind in ("payout", "payment"):
            await _live(world, running, kind, WARM_UP)
            await _until_written(connection)
            await connection.execute("CHECKPOINT")
            before, wal = await _sizes(connection), await server.wal_bytes()
            await _live(world, running, kind, number)
            await _until_written(connection)
            wal = await server.wal_bytes() - wal
            total += _report(kind, number, before, await _sizes(connection), wal)
        print(f"\nmean of both: {total / 2 * BYTES_PER_MILLION:.2f} GB per million transactions")
        await _report_updates(connection)
        await _report_columns(connection)
        await _report_rebuilt(connection)


async def _live(world: Worker, running: Running, kind: str, number: int) -> None:
    for first in range(0, number, CHUNK):
        order = {
            "kind": kind,
            "number": min(CHUNK, number - first),
            "callers": CALLERS,
            "repeats_allowed": True,
            "port": running.port,
            "merchants": running.merchants,
            "method_id": running.method_id,
        }
        await world.contender("world", order).run(0)


async def _until_written(connection: asyncpg.Connection) -> None:
    """Waits until no job is left, and until the request log and the statistics were written."""
    while not await connection.fetchval(IS_QUIET):  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    before = -1
    while before != (number := await connection.fetchval("SELECT count(*) FROM api_request")):
        before = number
        await asyncio.sleep(3)


async def _sizes(connection: asyncpg.Connection) -> Sizes:
    await connection.execute("SELECT pg_stat_force_next_flush()")
    return {
        record["name"]: Relation(record["of_table"], record["bytes"], record["scans"])
        for record in await connection.fetch(SIZES)
    }


def _report(kind: str, number: int, before: Sizes, after: Sizes, wal: int) -> float:
    """Prints the bytes per transaction, and returns their sum."""
    each = {name: (after[name].bytes - before[name].bytes) / number for name in after}
    by_table: dict[str, float] = {}
    for name, size in each.items():
        by_table[after[name].table] = by_table.get(after[name].table, 0) + size
    total = sum(each.values())
    print(f"\n{kind}: {total:,.0f} bytes stored, {wal / number:,.0f} bytes of WAL, per {kind}")
    for table in sorted(by_table, key=lambda table: -by_table[table]):
        if by_table[table] < SHOWN_BYTES_MIN:
            continue
        print(f"  {table:<30} {by_table[table]:7,.0f}   heap {each[table]:,.0f}")
        for name in sorted(each):
            if after[name].table == table != name and each[name] >= SHOWN_BYTES_MIN:
                scans = (after[name].scans or 0) - (before[name].scans or 0)
                print(f"    {name:<36} {each[name]:7,.0f}   {scans / number:.2f} scans")
    return total


async def _report_columns(connection: asyncpg.Connection) -> None:
    print("\nbytes per row: columns that have any, as stored")
    for table in (
        "payout",
        "payment",
        "charge",
        "posting",
        "entry",
        "timeline",
        "webhook",
        "notification",
        "delivery_attempt",
        "endpoint_delivery",
        "api_request",
    ):
        names = [record["name"] for record in await connection.fetch(COLUMNS, table)]
        sums = ", ".join(f'avg(coalesce(pg_column_size("{name}"), 0))' for name in names)
        row = await connection.fetchrow(f"SELECT count(*), {sums} FROM {table}")
        parts = [f"{n} {size:.0f}" for n, size in zip(names, list(row)[1:], strict=True) if size]
        print(f"  {table} ({row[0]:,} rows): {', '.join(parts)}")


async def _report_rebuilt(connection: asyncpg.Connection) -> None:
    """Prints the sizes without dead rows and with full index pages, as after a REINDEX."""
    await connection.execute("VACUUM FULL")
    number = await connection.fetchval(
        "SELECT (SELECT count(*) FROM payout) + count(*) FROM payment"
    )
    sizes = {name: each.bytes / number for name, each in (await _sizes(connection)).items()}
    print(f"\nrebuilt: {sum(sizes.values()) * BYTES_PER_MILLION:.2f} GB per million transactions")
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if sizes[name] >= REBUILT_BYTES_MIN:
            print(f"  {name:<44} {sizes[name]:7,.0f}")


async def _report_updates(connection: asyncpg.Connection) -> None:
    print("\nupdates")
    for record in await connection.fetch(UPDATES):
        share = record["hot"] / record["updates"]
        print(f"  {record['name']:<24} {record['updates']:,}, of which heap-only {share:.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.storage", description=__doc__)
    parser.add_argument("--transactions", type=int, default=5000, help="of each kind")
    asyncio.run(measure(parser.parse_args().transactions))
