"""Delivers notifications: prepare, call, record. Nobody's silence delays anybody else's."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import aiohttp

from manilla.kit import crash, metrics, outbound
from manilla.kit.batch import Batcher
from manilla.kit.db import Database
from manilla.kit.jobs import Job, Work
from manilla.ledger.posting import Environment
from manilla.merchants.directory import Directory
from manilla.notify import queries, signing
from manilla.notify.hosts import Hosts, host_of
from manilla.notify.outbox import DELIVER
from manilla.notify.queries import Attempt, Due

PLACES = 192
ATTEMPT_SECONDS = 10.0
ANSWER_BYTES_MAX = 64 * 1024
ANSWER_BYTES_KEPT = 2 * 1024
REDIRECTS = (301, 302, 303, 307, 308)
# After how many seconds a failed attempt is followed by another; after the last, by none.
RETRY_SECONDS = (10.0, 60.0)
SLACK_SECONDS = 0.5  # the database's clock and ours may differ by as much
# How long a host's others wait for their turn while it has its share of calls under way.
BUSY_SECONDS, SLOW_BUSY_SECONDS = 0.1, 1.0


class Answered(Exception):
    """What came of a call, where it was not a success; its text says so."""

    def __init__(self, error: str, status: int | None = None, answer: bytes | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.answer = answer


class Courier:
    def __init__(self, db: Database, directory: Directory, session: aiohttp.ClientSession) -> None:
        self._directory = directory
        self._session = session
        self._hosts = Hosts()
        self._load: Batcher[Job, Due | None] = Batcher(partial(queries.due, db))
        self._record: Batcher[Attempt, None] = Batcher(partial(queries.record, db))

    def works(self) -> dict[str, Work]:
        return {DELIVER: Work(self.deliver, places=PLACES, in_turns=True)}

    async def deliver(self, job: Job) -> float | None:
        """One attempt at the oldest notification of a transaction: order is kept within it."""
        due = await self._load.submit(job)
        if due is None:
            return None
        wait = _wait_seconds(due)
        if wait > SLACK_SECONDS:
            return wait  # another notification of the transaction has woken us
        host = host_of(due.url)
        entered, was_slow = self._hosts.enter(host, due.merchant_id)
        if not entered:
            return SLOW_BUSY_SECONDS if was_slow else BUSY_SECONDS
        began = time.monotonic()
        try:
            attempt = await self._attempt(due, began)
        finally:
            seconds = time.monotonic() - began
            self._hosts.leave(host, due.merchant_id, was_slow=was_slow, seconds=seconds)
        crash.point("after_notification_is_delivered")
        await self._record.submit(attempt)
        metrics.notifications.labels(attempt.state).inc()
        if attempt.state == "waiting":
            return RETRY_SECONDS[attempt.attempts - 1]
        return 0 if due.has_more else None

    async def _attempt(self, due: Due, began: float) -> Attempt:
        at = datetime.now(UTC)
        headers = await self._headers(due, int(at.timestamp()))
        status, answer, error = None, None, None
        try:
            status, answer = await self._call(due, headers)
        except Answered as problem:
            status, answer, error = problem.status, problem.answer, str(problem)
        attempts = due.attempts + 1
        is_last = attempts > len(RETRY_SECONDS)
        state = "delivered" if error is None else "failed" if is_last else "waiting"
        return Attempt(
            merchant_id=due.merchant_id,
            notification_id=due.id,
            number=due.attempts_in_all + 1,
            at=at,
            headers=headers,
            status=status,
            answer=answer,
            milliseconds=round((time.monotonic() - began) * 1000),
            error=error,
            attempts=attempts,
            state=state,
        )

    async def _headers(self, due: Due, now: int) -> dict[str, str]:
        """Signed with the newest secret: after a rotation, the one that the merchant has last."""
        merchant = await self._directory.of(Environment(due.environment), due.merchant_id)
        return signing.headers(
            merchant.live_credentials()[0].secret,
            notification_id=due.id,
            environment=due.environment,
            body=due.body,
            now=now,
        )

    async def _call(self, due: Due, headers: dict[str, str]) -> tuple[int, bytes]:
        # Kept as far as it came, also where the rest of it never does.
        status, answer = None, bytearray()
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                async with self._session.post(
                    due.url, data=due.body, headers=headers, allow_redirects=False
                ) as response:
                    status = response.status
                    await _read_limited(response, answer)
        except TimeoutError:
            late = "no answer" if status is None else "the answer did not end"
            raise _answered(f"{late} within 10 seconds", status, answer) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _answered(f"the call failed: {outbound.told(error)}", status, answer) from None
        if not 200 <= status < 300:
            raise _answered(_refusal(status), status, answer)
        return status, bytes(answer[:ANSWER_BYTES_KEPT])


def _wait_seconds(due: Due) -> float:
    """What is left until the next attempt may be made."""
    if due.attempts == 0 or due.ended_at is None:
        return 0
    next_at = due.ended_at + timedelta(seconds=RETRY_SECONDS[due.attempts - 1])
    return (next_at - datetime.now(UTC)).total_seconds()


async def _read_limited(response: aiohttp.ClientResponse, answer: bytearray) -> None:
    """The first part is kept, some more is read; who sends without end is cut off."""
    async for chunk in response.content.iter_chunked(16 * 1024):
        answer += chunk
        if len(answer) > ANSWER_BYTES_MAX:
            response.close()
            break


def _answered(error: str, status: int | None, answer: bytearray) -> Answered:
    return Answered(error, status, None if status is None else bytes(answer[:ANSWER_BYTES_KEPT]))


def _refusal(status: int) -> str:
    return f"HTTP {status}" + (": redirects are not followed" if status in REDIRECTS else "")
