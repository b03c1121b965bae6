"""Imports a large statement, and matches its lines with the ledger movements of the benchmark."""

import asyncio
import os
import sys
import time
from datetime import UTC, datetime, timedelta

import msgspec
import uvloop

from bench.frame import Work
from manilla.kit import logs
from manilla.kit.database.connections import Database
from manilla.providers.port import EVERY_MOVEMENT
from manilla.reconciliation import days, files, importing
from manilla.worker import STATEMENT_SECONDS

PROVIDER = "providera"
# One in this many lines names an unknown transaction, which leaves a movement without a line.
WRONG_EVERY = 1000


class Order(msgspec.Struct, frozen=True):
    step: str


def statement(number: int) -> bytes:
    newest = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = newest - timedelta(days=2)
    head = "booked_at,amount,kind,reference,provider_reference\n"
    return (head + "".join(_row(n, start) for n in range(1, number + 1))).encode()


def _row(n: int, start: datetime) -> str:
    moment = (start - timedelta(seconds=0.8 * n)).isoformat()
    naira = f"{n // 100}.{n % 100:02}"
    if n % WRONG_EVERY == 0:
        return f"{moment},{naira},charge,TXN9{n:029},\n"
    if n % 10 < 7:
        return f"{moment},{naira},charge,TXN{n:030}-1,\n"
    return f"{moment},-{naira},transfer,,TRF_{n}\n" if n % 10 < 9 else f"{moment},{naira},,,\n"


async def main() -> None:
    raw = statement(int(os.environ["BENCH_LINES"]))
    db = await Database.open(
        os.environ["MANILLA_DATABASE_URL"],
        size=1,
        name="bench",
        statement_seconds=STATEMENT_SECONDS,
    )
    print("{}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        step = STEPS[msgspec.json.decode(line, type=Order).step]
        began = time.monotonic()
        done = await step(db, raw)
        work = Work(done, time.monotonic() - began)
        print(msgspec.json.encode(work).decode(), flush=True)
    await db.close()


async def _import(db: Database, raw: bytes) -> int:
    result = await importing.store(db, PROVIDER, files.read(raw))
    return result.new


async def _match(db: Database, raw: bytes) -> int:
    del raw  # the import step has already stored the statement
    since = datetime.now(UTC) - timedelta(days=float(os.environ.get("BENCH_DAYS", "30")))
    await importing.compare(db, PROVIDER, since, EVERY_MOVEMENT)
    # The lines of a longer history were matched before.
    lines = int(os.environ["BENCH_LINES"])
    found = await days.days(db)
    open_ = [sum(day.open_lines for day in found), sum(day.open_movements for day in found)]
    assert open_ == [lines // WRONG_EVERY] * 2, f"unmatched lines and movements: {open_}"
    return lines


STEPS = {"import": _import, "match": _match}


if __name__ == "__main__":
    logs.configure("bench")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
