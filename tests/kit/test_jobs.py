"""Jobs run at least once, in one worker at a time, even if a worker dies."""

import asyncio
import itertools
from datetime import timedelta

import msgspec
import pytest

from manilla.kit import jobs
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, RunEnd, Work, claims
from manilla.kit.jobs import runner as runner_module
from manilla.kit.jobs.runner import Runner
from tests.support.timeouts import TIMEOUT_SECONDS
from tests.support.waiting import until_true

_numbers = itertools.count()


@pytest.fixture
def kind() -> str:
    """Returns a separate job kind for each test."""
    return f"test.{next(_numbers)}"


async def _claim_one(db: Database, kind: str) -> Job:
    [job] = await claims.claim(db, {kind: 10})
    return job


async def _end_lease(db: Database, kind: str) -> None:
    await db.execute("UPDATE job SET due_at = now(), leased_until = now() WHERE kind = $1", kind)


async def _count(db: Database, kind: str) -> int:
    count: int = await db.value("SELECT count(*) FROM job WHERE kind = $1", kind)
    return count


async def test_a_subject_has_one_job_due_at_the_earliest_time(db: Database, kind: str) -> None:
    await jobs.put(db, 1, kind, "a", in_seconds=60)
    assert await claims.claim(db, {kind: 10}) == []
    await jobs.put(db, 1, kind, "a")
    await jobs.put(db, 1, kind, "a", in_seconds=60)
    assert (await _claim_one(db, kind)).subject == "a"
    assert await _count(db, kind) == 1


async def test_a_claimed_job_belongs_to_one_worker(db: Database, kind: str) -> None:
    for subject in "abc":
        await jobs.put(db, 1, kind, subject)
    results = await asyncio.gather(*(claims.claim(db, {kind: 1}) for _ in range(6)))
    assert sorted(job.subject for claimed in results for job in claimed) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["fences", "fences.fair"])
async def test_each_job_of_a_claim_has_a_fence_of_its_own(db: Database, kind: str) -> None:
    for number in range(10):
        await jobs.put(db, number, kind, "a")
    if kind == "fences":
        claimed = await claims.claim(db, {kind: 10})
    else:
        claimed, _ = await claims.claim_fairly(db, kind, 10, -1)
    assert len({job.fence for job in claimed}) == 10
    held = await db.records("SELECT merchant_id, fence, lease FROM job WHERE kind = $1", kind)
    fences = {job.merchant_id: job.fence for job in claimed}
    assert {row["merchant_id"]: row["fence"] for row in held} == fences
    assert {row["merchant_id"]: row["lease"] for row in held} == fences


async def test_a_worker_stalled_past_its_lease_cannot_finish_the_job(
    db: Database, kind: str
) -> None:
    await jobs.put(db, 1, kind, "a")
    frozen = await _claim_one(db, kind)
    await _end_lease(db, kind)
    other = await _claim_one(db, kind)
    await claims.end(db, [frozen])
    assert await _count(db, kind) == 1
    await claims.end(db, [other])
    assert await _count(db, kind) == 0


async def test_a_job_requested_again_while_it_runs_is_not_lost(db: Database, kind: str) -> None:
    await jobs.put(db, 1, kind, "a")
    running = await _claim_one(db, kind)
    await jobs.put(db, 1, kind, "a")
    await claims.end(db, [running])
    assert (await _claim_one(db, kind)).subject == "a"


async def test_a_job_that_keeps_failing_is_set_aside_and_the_others_continue(
    db: Database, kind: str
) -> None:
    await jobs.put(db, 1, kind, "poison")
    await jobs.put(db, 1, kind, "good")
    done: list[str] = []

    async def handler(job: Job) -> None:
        if job.subject == "poison":
            raise ValueError("not like this")
        done.append(job.subject)

    runner = Runner(db, {kind: Work(handler, concurrency=4)})
    for _ in range(claims.FAILURES_MAX + 3):
        for job in await claims.claim(db, {kind: 10}):
            await runner._do(job)
        await _end_lease(db, kind)
    assert done == ["good"]
    failed = await db.record(
        "SELECT failures, last_error, parked_at IS NOT NULL AS has_failed FROM job WHERE kind = $1",
        kind,
    )
    assert dict(failed) == {
        "failures": claims.FAILURES_MAX,
        "last_error": "ValueError: not like this",
        "has_failed": True,
    }
    await jobs.put(db, 1, kind, "poison")
    assert (await _claim_one(db, kind)).failures == 0


@pytest.mark.parametrize(("failures", "seconds"), [(0, 2), (3, 16), (7, 256), (8, 300)])
async def test_the_delay_doubles_with_each_failure_up_to_five_minutes(
    db: Database, kind: str, failures: int, seconds: int
) -> None:
    await jobs.put(db, 1, kind, "a")
    job = msgspec.structs.replace(await _claim_one(db, kind), failures=failures)
    wait, before = timedelta(seconds=seconds), await db.value("SELECT now()")
    await claims.fail(db, job, "error")
    due_at = await jobs.due_at(db, 1, kind, "a")
    assert due_at is not None
    assert before + wait <= due_at <= await db.value("SELECT now()") + wait


async def test_a_job_that_failed_more_often_than_allowed_is_set_aside_too(
    db: Database, kind: str
) -> None:
    """A release that allows fewer failures finds such jobs."""
    await jobs.put(db, 1, kind, "a")
    job = await _claim_one(db, kind)
    await claims.fail(db, msgspec.structs.replace(job, failures=claims.FAILURES_MAX), "error")
    assert await db.value("SELECT parked_at IS NOT NULL FROM job WHERE kind = $1", kind)


async def test_a_runner_claims_jobs_only_if_a_quarter_of_its_capacity_is_free(
    db: Database, kind: str
) -> None:
    async def do(_job: Job) -> None: ...

    runner = Runner(db, {kind: Work(do, concurrency=8)})
    for running, free in ((0, 8), (5, 3), (6, 2), (7, 0), (8, 0)):
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(running)]
        runner._running[kind] = set(tasks)
        assert runner._free(kind) == free
        await asyncio.gather(*tasks)


async def test_a_runner_does_due_jobs_and_reschedules_unfinished_ones(
    db: Database, kind: str
) -> None:
    for number in range(30):
        await jobs.put(db, number, kind, "s")
    tries: dict[int, int] = {}
    most, running = 0, 0

    async def handler(job: Job) -> float | None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        tries[job.merchant_id] = tries.get(job.merchant_id, 0) + 1
        return 0 if tries[job.merchant_id] < 2 else None

    stop = asyncio.Event()
    task = asyncio.create_task(Runner(db, {kind: Work(handler, concurrency=4)}).run(stop))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while await _count(db, kind):
            await asyncio.sleep(0.02)
    stop.set()
    await task
    assert set(tries.values()) == {2}
    assert len(tries) == 30
    assert most <= 4


async def test_a_stopping_runner_lets_its_jobs_finish(db: Database, kind: str) -> None:
    await jobs.put(db, 1, kind, "slow")
    begun, stop, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(_job: Job) -> None:
        begun.set()
        await may_end.wait()

    task = asyncio.create_task(Runner(db, {kind: Work(handler, concurrency=4)}).run(stop))
    await begun.wait()
    stop.set()
    # Wait until the runner has noticed that it must stop.
    await asyncio.sleep(2 * runner_module.POLL_SECONDS)
    assert not task.done()
    may_end.set()
    await task
    assert await _count(db, kind) == 0


async def test_a_runner_pauses_only_after_finding_no_job_of_any_kind(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there are as many merchants as slots, the next round starts with the first one again."""
    monkeypatch.setattr(jobs, "SHARED_BELOW", 0)  # the kind has its own claims
    stop, done = asyncio.Event(), []

    async def do(job: Job) -> None:
        done.append(job.subject)

    pause = runner_module._pause

    async def rest(until: asyncio.Event, seconds: float) -> None:
        if until is stop and seconds == runner_module.POLL_SECONDS:
            stop.set()
        else:
            await pause(until, seconds)

    monkeypatch.setattr(runner_module, "_pause", rest)
    for merchant_id in range(4):
        for subject in "abc":
            await jobs.put(db, merchant_id, "turns", f"{merchant_id}{subject}")
    await Runner(db, {"turns": Work(do, concurrency=4, is_fair=True)}).run(stop)
    assert len(done) == len(set(done)) == 12


async def test_a_merchants_long_queue_does_not_delay_other_merchants(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "SHARED_BELOW", 0)  # the kind has its own claims
    stop, order = asyncio.Event(), list[int]()

    async def do(job: Job) -> None:
        order.append(job.merchant_id)

    async def rest(until: asyncio.Event, _seconds: float) -> None:
        if until is stop:
            stop.set()  # no job is due
        else:
            await until.wait()  # for a free place

    monkeypatch.setattr(runner_module, "_pause", rest)
    for number in range(100):
        await jobs.put(db, 1, "queue", f"old{number}")
    for number in range(3):
        await jobs.put(db, 2, "queue", f"new{number}")
        await jobs.put(db, 3, "queue", f"later{number}", in_seconds=3600)
    await Runner(db, {"queue": Work(do, concurrency=4, is_fair=True)}).run(stop)
    assert len(order) == 103
    # The first four jobs are the oldest ones. From then on, the merchants have equal shares.
    assert order.index(2) < 8
    assert [merchant for merchant in order[:20] if merchant == 2] == [2, 2, 2]


async def test_kinds_with_shared_claims_let_merchants_take_turns_while_more_is_due(
    db: Database,
) -> None:
    stop, order, others = asyncio.Event(), list[int](), list[str]()

    async def do(job: Job) -> None:
        order.append(job.merchant_id)

    async def do_other(job: Job) -> None:
        others.append(job.subject)

    for number in range(100):
        await jobs.put(db, 1, "small", f"old{number}")
    for number in range(3):
        await jobs.put(db, 2, "small", f"new{number}")
        await jobs.put(db, 2, "other", f"other{number}")
    works = {
        "small": Work(do, concurrency=4, is_fair=True),
        "other": Work(do_other, concurrency=4),
    }
    running = asyncio.create_task(Runner(db, works).run(stop))
    await until_true(lambda: len(order) == 103)
    assert order.index(2) < 8
    assert [merchant for merchant in order[:20] if merchant == 2] == [2, 2, 2]
    assert len(others) == 3
    # After its turns, the kind is claimed together with the others again.
    await jobs.put(db, 1, "small", "later")
    await until_true(lambda: len(order) == 104)
    stop.set()
    await running


async def test_a_job_that_its_handler_has_ended_is_left_alone(db: Database, kind: str) -> None:
    """A job of the same subject that was added since then is another job."""
    await jobs.put(db, 1, kind, "s")
    held = await _claim_one(db, kind)

    async def handler(job: Job) -> RunEnd:
        async with db.transaction() as connection:
            await jobs.delete(connection, job.merchant_id, job.kind, job.subject)
        await jobs.put(db, job.merchant_id, job.kind, job.subject)
        return RunEnd.DELETED

    await Runner(db, {kind: Work(handler, concurrency=1)})._do(held)
    assert await _count(db, kind) == 1
    assert len(await claims.claim(db, {kind: 1})) == 1


async def test_a_full_runner_claims_the_next_job_when_a_job_ends(
    db: Database, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "POLL_SECONDS", 3600.0)
    stop, done = asyncio.Event(), []

    async def do(job: Job) -> None:
        done.append(job.subject)
        if len(done) == 3:
            stop.set()

    for subject in "abc":
        await jobs.put(db, 1, kind, subject)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await Runner(db, {kind: Work(do, concurrency=1)}).run(stop)
    assert sorted(done) == ["a", "b", "c"]


async def test_a_lease_is_renewed_while_its_job_runs(
    db: Database, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "RENEW_SECONDS", 0.01)
    leased = "SELECT leased_until FROM job WHERE kind = $1"
    stop, done = asyncio.Event(), asyncio.Event()

    async def work(_job: Job) -> None:
        await done.wait()

    await jobs.put(db, 1, kind, "a")
    runner = Runner(db, {kind: Work(work, concurrency=1)})
    task = asyncio.create_task(runner.run(stop))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while (first := await db.value(leased, kind)) is None:
            await asyncio.sleep(0.01)
        while await db.value(leased, kind) == first:
            await asyncio.sleep(0.01)
        done.set()
        while await _count(db, kind):
            await asyncio.sleep(0.01)
        stop.set()
        await task
