"""Delivers notifications. A slow receiver does not delay the notifications of others."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import aiohttp

from manilla import metrics
from manilla.kit import crash, outbound
from manilla.kit.batch import Batcher
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job, Work
from manilla.merchants.directory import Directory
from manilla.notify import queries, signing
from manilla.notify.host_limits import HostLimits, host_of
from manilla.notify.outbox import DELIVER
from manilla.notify.queries import AttemptResult, DueNotification, Notification

CONCURRENCY = 192
ATTEMPT_SECONDS = 10.0
ANSWER_BYTES_MAX = 64 * 1024
ANSWER_BYTES_KEPT = 2 * 1024
REDIRECTS = (301, 302, 303, 307, 308)
# Seconds from a failed attempt to the next one; there is none after the last attempt.
RETRY_SECONDS = (10.0, 60.0)
SLACK_SECONDS = 0.5  # allowance for a difference between the database's clock and ours
# Seconds that a notification waits when its host already has its share of concurrent calls.
BUSY_SECONDS, SLOW_BUSY_SECONDS = 0.1, 1.0


class NotificationDelivery:
    def __init__(self, db: Database, directory: Directory, session: aiohttp.ClientSession) -> None:
        self._directory = directory
        self._session = session
        self._hosts = HostLimits()
        self._load: Batcher[Job, DueNotification | None] = Batcher(partial(queries.due, db))
        self._record: Batcher[AttemptResult, None] = Batcher(partial(queries.record, db))

    def works(self) -> dict[str, Work]:
        return {DELIVER: Work(self.deliver, concurrency=CONCURRENCY, is_fair=True)}

    async def deliver(self, job: Job) -> float | None:
        """Makes one attempt at the oldest undelivered notification of a transaction.

        The notifications of a transaction are delivered in order.
        """
        due = await self._load.submit(job)
        if due is None:
            return None
        wait = _wait_seconds(due)
        if wait > SLACK_SECONDS:
            return wait  # the job ran early, because another notification was enqueued
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

    async def _attempt(self, due: DueNotification, began: float) -> AttemptResult:
        at = datetime.now(UTC)
        headers = await signed_headers(self._directory, due, int(at.timestamp()))
        status, answer, error = await self._call(due, headers)
        attempts = due.attempts + 1
        is_last = attempts > len(RETRY_SECONDS)
        state = "delivered" if error is None else "failed" if is_last else "waiting"
        return AttemptResult(
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

    async def _call(
        self, due: DueNotification, headers: dict[str, str]
    ) -> tuple[int | None, bytes | None, str | None]:
        """Calls the URL.

        Returns status, response and error; an incomplete response is returned too.
        """
        status, answer, error = None, bytearray(), None
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                async with self._session.post(
                    due.url, data=due.body, headers=headers, allow_redirects=False
                ) as response:
                    status = response.status
                    await _read_limited(response, answer)
            error = None if 200 <= status < 300 else _error(status)
        except TimeoutError:
            late = "no response" if status is None else "the response did not end"
            error = f"{late} within 10 seconds"
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            error = f"the call failed: {outbound.describe(problem)}"
        return status, None if status is None else bytes(answer[:ANSWER_BYTES_KEPT]), error


async def signed_headers(
    directory: Directory, notification: DueNotification | Notification, now: int
) -> dict[str, str]:
    """Signs with the merchant's newest secret, which after a rotation is the new one."""
    merchant = await directory.of(Environment(notification.environment), notification.merchant_id)
    return signing.headers(
        merchant.live_credentials()[0].secret,
        notification_id=notification.id,
        environment=notification.environment,
        body=notification.body,
        now=now,
    )


def _wait_seconds(due: DueNotification) -> float:
    """Returns the seconds until the next attempt is due."""
    if due.attempts == 0 or due.ended_at is None:
        return 0
    next_at = due.ended_at + timedelta(seconds=RETRY_SECONDS[due.attempts - 1])
    return (next_at - datetime.now(UTC)).total_seconds()


async def _read_limited(response: aiohttp.ClientResponse, answer: bytearray) -> None:
    """Reads the response up to a limit. Closes the connection if there is more."""
    async for chunk in response.content.iter_chunked(16 * 1024):
        answer += chunk
        if len(answer) > ANSWER_BYTES_MAX:
            response.close()
            break


def _error(status: int) -> str:
    return f"HTTP {status}" + (": redirects are not followed" if status in REDIRECTS else "")
