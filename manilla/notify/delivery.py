"""Delivers messages to merchants' servers. A slow server does not delay other deliveries.

`Destination` implements the differences between `ipn_url` and webhook endpoints.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Generic, NamedTuple, Protocol

from manilla import metrics
from manilla.kit import crash, outbound, time_limits
from manilla.kit.batch import RESULT_DELAY_SECONDS, Batcher
from manilla.kit.http_client.client import HttpClient
from manilla.kit.http_client.connection import HttpReply
from manilla.kit.http_client.errors import HttpError
from manilla.kit.jobs import Job, NextRun, RunEnd, Work
from manilla.notify.host_limits import HostLimits, host_of
from manilla.notify.queries import (
    AttemptResult,
    DeliveryErrorCode,
    DeliveryResult,
    Due,
    DueMessage,
)

CONCURRENCY = 192
ANSWER_BYTES_MAX = 64 * 1024
ANSWER_BYTES_KEPT = 2 * 1024
REDIRECTS = (301, 302, 303, 307, 308)
SLACK_SECONDS = 0.5  # tolerance for a difference between the database's clock and ours


class Destination(Protocol[Due]):
    """A destination type, which loads due messages, signs them, and stores the results."""

    kind: str  # the kind of jobs for this destination

    async def due(self, jobs: Sequence[Job]) -> Sequence[Due | None]: ...
    def retry_seconds(self, due: Due) -> Sequence[float]:
        """Returns the seconds from each failed attempt to the next attempt."""

    async def headers(self, due: Due, now: int) -> dict[str, str]: ...
    async def record(self, results: Sequence[DeliveryResult]) -> Sequence[bool]:
        """Stores the results. Returns True for each result whose job was deleted with it."""


class DeliveryReply(NamedTuple):
    """The response to one delivery attempt, or the reason why there is no response."""

    status: int | None
    answer: bytes | None
    error: str | None
    error_code: DeliveryErrorCode | None


def open_client(*, is_public_only: bool, connections: int) -> HttpClient:
    """Opens the HTTP client for merchants' servers."""
    return HttpClient(
        connections=connections,
        keepalive_seconds=15,
        # Merchants have different hosts, and a new connection costs more than a request.
        open_max=2 * connections,
        is_public_only=is_public_only,
        headers={"User-Agent": "Manilla", "Accept": "*/*"},
    )


class NotificationDelivery(Generic[Due]):
    def __init__(self, destination: Destination[Due], client: HttpClient) -> None:
        self._destination = destination
        self._client = client
        self._hosts = HostLimits()
        self._load: Batcher[Job, Due | None] = Batcher(destination.due)
        self._record: Batcher[DeliveryResult, bool] = Batcher(
            destination.record, delay_seconds=RESULT_DELAY_SECONDS
        )

    def job_handlers(self) -> dict[str, Work]:
        return {self._destination.kind: Work(self.deliver, concurrency=CONCURRENCY, is_fair=True)}

    async def deliver(self, job: Job) -> NextRun:
        """Makes one attempt to deliver the job's oldest undelivered message.

        All messages of a job are about one transaction and are delivered in order.
        """
        due = await self._load.submit(job)
        if due is None:
            return None
        wait = _wait_seconds(due, self._destination.retry_seconds(due))
        if wait > SLACK_SECONDS:
            return wait  # the job ran too early, because a new message was queued
        host = host_of(due.url)
        entered, was_slow = await self._hosts.enter_soon(host, due.merchant_id)
        if not entered:
            return due.busy_seconds(is_slow=was_slow)
        began = time.monotonic()
        try:
            attempt = await self._attempt(due, began)
        finally:
            seconds = time.monotonic() - began
            self._hosts.leave(host, due.merchant_id, was_slow=was_slow, seconds=seconds)
        crash.point("after_notification_is_delivered")
        is_ended = attempt.state == "delivered" and not due.has_more
        is_deleted = await self._record.submit(DeliveryResult(attempt, job if is_ended else None))
        metrics.notifications.labels(attempt.state).inc()
        if is_deleted:
            return RunEnd.DELETED
        if attempt.state == "waiting":
            return self._destination.retry_seconds(due)[attempt.attempts - 1]
        return 0 if due.has_more else None

    async def _attempt(self, due: Due, began: float) -> AttemptResult:
        at = datetime.now(UTC)
        headers = await self._destination.headers(due, int(at.timestamp()))
        reply = await self._call(due, headers)
        attempts = due.attempts + 1
        is_last = attempts > len(self._destination.retry_seconds(due))
        state = "delivered" if reply.error is None else "failed" if is_last else "waiting"
        return AttemptResult(
            merchant_id=due.merchant_id,
            notification_id=due.key,
            number=due.attempts_in_all + 1,
            at=at,
            headers=headers,
            status=reply.status,
            answer=reply.answer,
            milliseconds=round((time.monotonic() - began) * 1000),
            error=reply.error,
            error_code=reply.error_code,
            attempts=attempts,
            state=state,
        )

    async def _call(self, due: DueMessage, headers: dict[str, str]) -> DeliveryReply:
        """Sends the message. Returns the response even if it is incomplete."""
        reply, error, code = HttpReply(), None, None
        seconds = time_limits.current.notification_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._client.request(
                    "POST",
                    due.url,
                    headers=headers,
                    body=due.body,
                    body_max=ANSWER_BYTES_MAX,
                    reply=reply,
                )
            error = _error(reply.status)
        except TimeoutError:
            late = "no response" if reply.status is None else "the response did not end"
            error = f"{late} within {seconds:g} seconds"
        except (HttpError, OSError, ValueError) as problem:
            error = f"the call failed: {outbound.describe(problem)}"
            code = DeliveryErrorCode.NOT_REACHED if outbound.is_not_reached(problem) else None
        kept = None if reply.status is None else bytes(reply.body[:ANSWER_BYTES_KEPT])
        return DeliveryReply(reply.status, kept, error, code)


def _wait_seconds(due: DueMessage, retry_seconds: Sequence[float]) -> float:
    if due.attempts == 0 or due.ended_at is None:
        return 0
    retry_after = retry_seconds[due.attempts - 1]
    seconds = (due.ended_at - datetime.now(UTC)).total_seconds() + retry_after
    # If the last attempt is in the future, the clock of the worker that made it was ahead. Then
    # only the job's due time is right, because the database sets it.
    return seconds if seconds <= retry_after + SLACK_SECONDS else 0


def _error(status: int | None) -> str | None:
    assert status is not None
    if 200 <= status < 300:
        return None
    return f"HTTP {status}" + (": redirects are not followed" if status in REDIRECTS else "")
