"""Claims waiting deliveries repeatedly, and returns them to the queue each time.

Only the claims are timed, and the number of waiting deliveries is the same for each claim. Returned
jobs go to the end of their merchant's queue, like the jobs of a busy host.
"""

import asyncio
import os
import sys
import time

import msgspec
import uvloop

from bench.frame import Work
from bench.workers.running import Order
from manilla.kit.db import Database
from manilla.kit.jobs import claims
from manilla.notify.delivery import CONCURRENCY
from manilla.notify.outbox import DELIVER


async def main() -> None:
    db = await Database.open(os.environ["MANILLA_DATABASE_URL"], size=1, name="bench")
    print("{}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        work = await _work(db, msgspec.json.decode(line, type=Order).seconds)
        print(msgspec.json.encode(work).decode(), flush=True)
    await db.close()


async def _work(db: Database, seconds: float) -> Work:
    deadline = time.monotonic() + seconds
    done, in_claims = 0, 0.0
    while time.monotonic() < deadline:
        began = time.monotonic()
        claimed, _ = await claims.claim_fairly(db, DELIVER, CONCURRENCY, after_merchant=-1)
        in_claims += time.monotonic() - began
        assert len(claimed) == CONCURRENCY  # every claim must return the same number of jobs
        done += 1
        await claims.put_off(db, [(job, 0) for job in claimed])
    return Work(done, in_claims)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
