"""Delivers events to merchants' endpoints, and disables endpoints that fail for days."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.jobs import Job
from manilla.mail import outbox as mail
from manilla.mail.kinds import MailKind
from manilla.merchants import merchants
from manilla.notify import queries, signing
from manilla.notify.endpoints import signing_keys
from manilla.notify.endpoints.endpoint import FAILING_MAX, RETRY_SECONDS
from manilla.notify.events import kinds
from manilla.notify.queries import DeliveryResult, DueMessage

GONE = 410
FOR_DAYS = f"Every delivery has failed for {FAILING_MAX.days} days. The last error: "
WAS_GONE = "Your server has returned HTTP 410 (Gone)."
BUSY_SECONDS_MAX = 300.0
SECRETS_REMEMBERED = 4096


class DueDelivery(DueMessage, frozen=True):
    """A transaction's oldest undelivered event for one endpoint."""

    endpoint_id: str
    type: str
    sealed: list[bytes]  # the valid secrets, newest first
    numbers: list[int]
    failing_since: datetime | None

    @property
    def key(self) -> str:
        return attempts_key(self.id, self.endpoint_id)

    def busy_seconds(self, *, is_slow: bool) -> float:
        """Returns the seconds to wait, which increase while the endpoint keeps failing."""
        least = super().busy_seconds(is_slow=is_slow)
        if self.failing_since is None:
            return least
        failing = (datetime.now(UTC) - self.failing_since).total_seconds()
        return max(least, min(BUSY_SECONDS_MAX, failing / 10))


def attempts_key(notification_id: str, endpoint_id: str) -> str:
    """Returns the key of a delivery's attempts in `delivery_attempt`."""
    return f"{notification_id}/{endpoint_id}"


def job_subject(trx_id: str, endpoint_id: str) -> str:
    return f"{trx_id}/{endpoint_id}"


class EndpointDestination:
    kind: str = JobKind.ENDPOINT

    def __init__(self, db: Database, keyring: Keyring) -> None:
        self._db = db
        self._open = lru_cache(SECRETS_REMEMBERED)(keyring.open)

    async def due(self, jobs: Sequence[Job]) -> list[DueDelivery | None]:
        found = queries.by_job(jobs, await _due(self._db, jobs))
        if None in found:
            await _stop(self._db, [job for job, due in zip(jobs, found, strict=True) if not due])
        return found

    def retry_seconds(self, due: DueDelivery) -> Sequence[float]:
        return () if due.type == kinds.TEST else RETRY_SECONDS

    async def headers(self, due: DueDelivery, now: int) -> dict[str, str]:
        contexts = signing_keys.contexts(due.merchant_id, due.endpoint_id, due.numbers)
        return signing.endpoint_headers(
            [self._open(*each) for each in zip(due.sealed, contexts, strict=True)],
            notification_id=due.id,
            environment=due.environment,
            body=due.body,
            now=now,
        )

    async def record(self, results: Sequence[DeliveryResult]) -> list[bool]:
        attempts = [each.attempt for each in results]
        if all(each.error is None for each in attempts):
            return await queries.record_and_end(self._db, _RECORD_DELIVERED, results)
        async with self._db.transaction() as connection:
            changed = await connection.records(_RECORD, *queries.parameters(attempts))
            await _judge(connection, [row for row in changed if not row["is_test"]])
        return [False] * len(results)


_CHANGED = f"""{queries.STORED},
        changed AS (
            UPDATE endpoint_delivery AS d
               SET attempts = g.attempts, state = g.state,
                   decided_at = CASE WHEN g.state <> 'waiting' THEN now() END
              FROM given g
             WHERE d.merchant_id = ANY (ARRAY[g.merchant_id])
               AND d.endpoint_id = split_part(g.notification_id, '/', 2)
               AND d.notification_id = split_part(g.notification_id, '/', 1)
               AND d.state = 'waiting'
               -- If it was scheduled again during this attempt, a failure does not count.
               AND (d.attempts = g.attempts - 1 OR g.state = 'delivered')
            RETURNING d.merchant_id, d.endpoint_id, g.at, g.status, g.error,
                      d.trx_id = d.notification_id AS is_test)"""
_RECORD = f"{_CHANGED} SELECT * FROM changed"
_RECORD_DELIVERED = f"""{_CHANGED},
        recovered AS (
        UPDATE webhook_endpoint AS e SET failing_since = NULL
          FROM (SELECT DISTINCT merchant_id, endpoint_id FROM changed WHERE NOT is_test) AS well
         WHERE e.merchant_id = ANY (ARRAY[well.merchant_id]) AND e.id = well.endpoint_id
           AND e.failing_since IS NOT NULL
        RETURNING true)
        {queries.end_of_jobs("changed", "recovered")}"""


async def _due(db: Database, jobs: Sequence[Job]) -> list[DueDelivery]:
    rows = await db.rows_by_key(
        DueDelivery,
        """
        SELECT d.merchant_id, j.subject, d.notification_id AS id, n.environment, e.url, n.body,
               d.attempts, coalesce(a.number, 0) AS attempts_in_all,
               a.at + a.milliseconds * interval '1 millisecond' AS ended_at, d.has_more,
               e.id AS endpoint_id,
               coalesce(n.type, n.event) AS type,
               s.sealed, s.numbers, e.failing_since
          FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
               AS j (merchant_id, subject, trx_id, endpoint_id)
         CROSS JOIN LATERAL (
               SELECT * FROM webhook_endpoint
                WHERE webhook_endpoint.merchant_id = j.merchant_id
                  AND webhook_endpoint.id = j.endpoint_id AND deleted_at IS NULL LIMIT 1) AS e
         CROSS JOIN LATERAL (
               SELECT *, lead(notification_id) OVER (ORDER BY notification_id) IS NOT NULL
                         AS has_more
                 -- This order forces a plan on the index by transaction.
                 FROM (SELECT * FROM endpoint_delivery
                        WHERE endpoint_delivery.merchant_id = j.merchant_id
                          AND endpoint_delivery.endpoint_id = j.endpoint_id
                          AND endpoint_delivery.trx_id BETWEEN j.trx_id AND j.trx_id
                        ORDER BY endpoint_delivery.trx_id) AS of_transaction
                WHERE state = 'waiting'
                ORDER BY notification_id LIMIT 1) AS d
         CROSS JOIN LATERAL (
               SELECT * FROM notification
                WHERE notification.merchant_id = d.merchant_id
                  AND notification.id = d.notification_id LIMIT 1) AS n
         CROSS JOIN LATERAL (
               SELECT array_agg(sealed ORDER BY number DESC) AS sealed,
                      array_agg(number ORDER BY number DESC) AS numbers
                 FROM endpoint_secret
                WHERE endpoint_secret.merchant_id = j.merchant_id
                  AND endpoint_secret.endpoint_id = j.endpoint_id
                  AND (expires_at IS NULL OR expires_at > now())) AS s
          LEFT JOIN LATERAL (
               SELECT number, at, milliseconds FROM delivery_attempt
                WHERE delivery_attempt.merchant_id = d.merchant_id
                  AND delivery_attempt.notification_id = d.notification_id || '/' || d.endpoint_id
                ORDER BY number DESC LIMIT 1) AS a ON true
         WHERE (e.disabled_at IS NULL OR n.event = $5) AND s.sealed IS NOT NULL""",
        *_keys(jobs),
        kinds.TEST,
    )
    return [
        msgspec.structs.replace(row, body=kinds.body_for_endpoint(row.type, row.body))
        for row in rows
    ]


async def _stop(db: Database, jobs: Sequence[Job]) -> None:
    """Marks waiting deliveries of disabled or deleted endpoints as failed."""
    await db.execute(
        """
        UPDATE endpoint_delivery AS d SET state = 'failed', decided_at = now()
          FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
               AS j (merchant_id, subject, trx_id, endpoint_id)
          JOIN webhook_endpoint e ON e.merchant_id = j.merchant_id AND e.id = j.endpoint_id
         WHERE d.merchant_id = j.merchant_id AND d.endpoint_id = j.endpoint_id
           AND d.trx_id = j.trx_id AND d.state = 'waiting'
           AND (e.disabled_at IS NOT NULL OR e.deleted_at IS NOT NULL)""",
        *_keys(jobs),
    )


def _keys(jobs: Sequence[Job]) -> tuple[list[int], list[str], list[str], list[str]]:
    parts = [job.subject.partition("/") for job in jobs]
    return (
        [job.merchant_id for job in jobs],
        [job.subject for job in jobs],
        [trx_id for trx_id, _, _ in parts],
        [endpoint_id for _, _, endpoint_id in parts],
    )


async def _judge(connection: Connection, results: Sequence[Any]) -> None:
    """Records since when endpoints have failed, and disables endpoints that failed for too long.

    Locks the merchant before the endpoint, in the same order as users' changes.
    """
    key_of = itemgetter("merchant_id", "endpoint_id")
    well = {key_of(row) for row in results if row["error"] is None}
    failed = {
        key_of(row): row
        for row in results
        if row["error"] is not None and (key_of(row) not in well or row["status"] == GONE)
    }
    for key in sorted(failed):
        await _disable_if_dead(connection, failed[key])
    failed_at = [failed[key]["at"] for key in sorted(failed)]
    await _set_failing(connection, sorted(failed), failed_at)
    await _set_failing(connection, sorted(well), [None] * len(well))


async def _set_failing(
    connection: Connection, keys: Sequence[tuple[int, str]], since: Sequence[datetime | None]
) -> None:
    """Saves when each endpoint started to fail, or None. Locks only the rows that change."""
    if keys:
        await connection.execute(
            """
            UPDATE webhook_endpoint AS e SET failing_since = g.since
              FROM unnest($1::bigint[], $2::text[], $3::timestamptz[]) AS g (merchant_id, id, since)
             WHERE e.merchant_id = g.merchant_id AND e.id = g.id
               AND (e.failing_since IS NULL) <> (g.since IS NULL)""",
            *([key[place] for key in keys] for place in (0, 1)),
            since,
        )


async def _disable_if_dead(connection: Connection, row: Any) -> None:
    is_gone = row["status"] == GONE
    key = row["merchant_id"], row["endpoint_id"], is_gone, FAILING_MAX
    dead = """
         WHERE merchant_id = $1 AND id = $2 AND disabled_at IS NULL AND deleted_at IS NULL
           AND ($3 OR failing_since < now() - $4::interval)"""
    if not await connection.has_row(f"SELECT FROM webhook_endpoint {dead}", *key):
        return
    await merchants.touch(connection, row["merchant_id"])
    reason = WAS_GONE if is_gone else FOR_DAYS + row["error"]
    disabled = await connection.record(
        f"""
        UPDATE webhook_endpoint SET disabled_at = now(), disabled_reason = $5 {dead}
        RETURNING environment, url""",
        *(*key, reason),
    )
    if disabled is not None:
        await mail.put(
            connection,
            MailKind.ENDPOINT_DISABLED,
            {"url": disabled["url"], "reason": reason},
            path=f"/dashboard/{disabled['environment']}/webhooks/{row['endpoint_id']}",
            merchant_id=row["merchant_id"],
        )
