"""The floor: the smallest SQL that moves money, run by pgbench one transaction at a time.

It changes two balances and writes a posting with a unique reference and two entries. It checks,
logs and limits nothing. No ledger on the same server can do this with less SQL.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.frame import PRODUCT, Comparison, Contender, Target
from bench.pgbench import Pgbench, Script
from bench.stage import Stage
from manilla.kit.database.connections import Database

FLOOR = "floor"
ACCOUNTS = 1000
SCHEMA = f"""
CREATE TABLE balance (id integer PRIMARY KEY, minor bigint NOT NULL);
CREATE TABLE posting (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reference text NOT NULL UNIQUE
);
CREATE TABLE entry (
    posting_id bigint,
    balance_id integer,
    minor      bigint NOT NULL,
    PRIMARY KEY (posting_id, balance_id)
);
INSERT INTO balance SELECT id, 0 FROM generate_series(1, {2 * ACCOUNTS}) AS id;
"""
# A transaction locks one wallet and one other account. Wallets and other accounts have
# separate id ranges, so two transactions cannot deadlock.
MOVE = f"""\
\\set wallet random(1, :wallets)
\\set other random({ACCOUNTS + 1}, {2 * ACCOUNTS})
WITH debit AS (UPDATE balance SET minor = minor - 1000 WHERE id = :wallet RETURNING id),
     credit AS (UPDATE balance SET minor = minor + 1000 WHERE id = :other RETURNING id),
     posting AS (INSERT INTO posting (reference) VALUES (gen_random_uuid()) RETURNING id)
INSERT INTO entry
SELECT posting.id, debit.id, -1000 FROM posting, debit
UNION ALL
SELECT posting.id, credit.id, 1000 FROM posting, credit;
"""


@asynccontextmanager
async def started(stage: Stage, wallets: int = ACCOUNTS) -> AsyncIterator[Contender]:
    """Starts pgbench with the floor's SQL in a separate database on the same server."""
    server = stage.server
    if FLOOR not in await server.databases():
        await server.add_empty_database(FLOOR)
    db = await Database.open(server.url(FLOOR), size=1, name="bench floor")
    try:
        if not await db.value("SELECT to_regclass('posting') IS NOT NULL"):
            await db.execute(SCHEMA)
        pgbench = Pgbench(server.cluster, db, server.folder, stage.clients, FLOOR)
        count = "SELECT coalesce(max(id), 0) FROM posting"
        script = Script(MOVE, count, {"wallets": str(wallets)})
        async with pgbench.started(script, FLOOR) as contender:
            yield contender
    finally:
        await db.close()


def against_floor(
    rate_min: float | None = None,
    program_max: float | None = None,
    database_max: float | None = None,
) -> list[Comparison]:
    """Compares Manilla's rate and CPU time with the floor's rate and database CPU time."""
    return [
        Comparison(
            "rate: product / floor",
            lambda blocks: blocks[PRODUCT].rate / blocks[FLOOR].rate,
            None if rate_min is None else Target(rate_min),
        ),
        Comparison(
            "program CPU: product / floor",
            lambda blocks: blocks[PRODUCT].program_us / blocks[FLOOR].database_us,
            _at_most(program_max),
        ),
        Comparison(
            "database CPU: product / floor",
            lambda blocks: blocks[PRODUCT].database_us / blocks[FLOOR].database_us,
            _at_most(database_max),
        ),
    ]


def _at_most(bound: float | None) -> Target | None:
    return None if bound is None else Target(bound, at_most=True)
