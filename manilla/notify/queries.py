"""SQL queries for notifications."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.expiry import delete_older
from manilla.kit.database.rows import columns
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.kit.jobs.claims import KEY, deletion, key, keys
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.notify import notification_ids, signing

RETRY_SECONDS = (10.0, 60.0)
BUSY_SECONDS, SLOW_BUSY_SECONDS = 0.1, 1.0
_KEY = ", ".join(KEY)

Due = TypeVar("Due", bound="DueMessage")


class DueMessage(msgspec.Struct, frozen=True):
    """A job's oldest undelivered message. Each destination type adds fields."""

    merchant_id: int
    subject: str  # the job's subject
    id: str  # the notification's id
    environment: str
    url: str
    body: bytes
    attempts: int  # number of attempts since the message was last scheduled
    attempts_in_all: int
    ended_at: datetime | None  # end time of the last attempt
    has_more: bool  # whether the job has another undelivered message

    @property
    def key(self) -> str:
        """The key under which the message's attempts are stored."""
        return self.id

    def busy_seconds(self, *, is_slow: bool) -> float:
        """Returns the seconds to wait while the host has reached its limit of concurrent calls."""
        return SLOW_BUSY_SECONDS if is_slow else BUSY_SECONDS


class DueNotification(DueMessage, frozen=True):
    """A transaction's oldest undelivered notification."""


class DeliveryAttempt(msgspec.Struct, frozen=True):
    """A stored delivery attempt to a notification's URL or to an endpoint."""

    number: int
    at: datetime
    headers: dict[str, str]
    status: int | None
    answer: bytes | None
    milliseconds: int
    error: str | None


class DeliveryErrorCode(StrEnum):
    """Error codes of failed delivery attempts. Other code depends on these error codes."""

    NOT_REACHED = "not_reached"  # the address is not public, or the host is unknown


class AttemptResult(DeliveryAttempt, frozen=True, kw_only=True):
    """A new delivery attempt, and the state of its message after the attempt."""

    merchant_id: int
    notification_id: str  # the message's key
    attempts: int
    state: str
    error_code: DeliveryErrorCode | None


class DeliveryResult(msgspec.Struct, frozen=True):
    attempt: AttemptResult
    ended: Job | None  # the job, if the attempt has delivered its last message


class Notification(msgspec.Struct, frozen=True):
    merchant_id: int
    id: str
    environment: str
    trx_id: str
    event: str
    status: str
    url: str
    body: bytes
    state: str
    attempts: int
    created_at: datetime
    decided_at: datetime | None


async def due(db: Database, jobs: Sequence[Job]) -> list[DueNotification | None]:
    """Returns each job's next notification, or None if all notifications are delivered."""
    rows = await db.rows_by_key(
        DueNotification,
        """
        SELECT n.merchant_id, n.trx_id AS subject, n.id, n.environment, n.url, n.body, n.attempts,
               coalesce(a.number, 0) AS attempts_in_all,
               a.at + a.milliseconds * interval '1 millisecond' AS ended_at, n.has_more
          FROM unnest($1::bigint[], $2::text[]) AS j (merchant_id, trx_id)
         CROSS JOIN LATERAL (
               SELECT *, lead(id) OVER (ORDER BY id) IS NOT NULL AS has_more
                 -- This order forces a plan on the index by transaction. `|| ''` excludes the
                 -- index by state, so that no plan reads all waiting notifications.
                 FROM (SELECT * FROM notification
                        WHERE notification.merchant_id = j.merchant_id
                          AND notification.trx_id BETWEEN j.trx_id AND j.trx_id
                        ORDER BY notification.trx_id) AS of_transaction
                WHERE state || '' = 'waiting'
                ORDER BY id LIMIT 1) AS n
          LEFT JOIN LATERAL (
               SELECT number, at, milliseconds FROM delivery_attempt
                WHERE delivery_attempt.merchant_id = n.merchant_id
                  AND delivery_attempt.notification_id = n.id
                ORDER BY number DESC LIMIT 1) AS a ON true""",
        [job.merchant_id for job in jobs],
        [job.subject for job in jobs],
    )
    return by_job(jobs, rows)


def by_job(jobs: Sequence[Job], due: Sequence[Due]) -> list[Due | None]:
    """Returns each job's message, in the order of the jobs."""
    found = {(each.merchant_id, each.subject): each for each in due}
    return [found.get((job.merchant_id, job.subject)) for job in jobs]


def parameters(attempts: Sequence[AttemptResult]) -> list[list[Any]]:
    """Returns the parameters for an SQL statement that starts with `STORED`."""
    values = {
        name: [getattr(each, name) for each in attempts] for name in AttemptResult.__struct_fields__
    }
    values["headers"] = [
        msgspec.json.encode(signing.signatures_of(each.headers)).decode() for each in attempts
    ]
    return list(values.values())


# Stores the attempts. The rest of the SQL statement reads them from `given`.
STORED = f"""
        WITH given AS (
            SELECT * FROM unnest($1::integer[], $2::timestamptz[], $3::text[], $4::integer[],
                                 $5::bytea[], $6::integer[], $7::text[], $8::bigint[], $9::text[],
                                 $10::integer[], $11::text[], $12::text[])
                AS g ({columns(AttemptResult)})),
        stored AS (
            INSERT INTO delivery_attempt (merchant_id, notification_id, number, at, headers, status,
                                          answer, milliseconds, error, error_code)
            SELECT merchant_id, notification_id, number, at, headers::jsonb, status, answer,
                   milliseconds, error, error_code FROM given
                ON CONFLICT DO NOTHING)"""


def end_of_jobs(*after: str) -> str:
    """Returns the end of an SQL statement that starts with `STORED`.

    Deletes the jobs whose last message was delivered, unless they have another message by now.
    `after` names the parts of the statement that lock the messages. The jobs are locked after them,
    in the same order as in the code that reschedules a message.
    """
    jobs = deletion(1 + len(AttemptResult.__struct_fields__), after=after)
    return f", ended AS ({jobs}) SELECT {_KEY} FROM ended"


_CHANGE = """
        UPDATE notification AS n
           SET attempts = g.attempts, state = g.state,
               decided_at = CASE WHEN g.state <> 'waiting' THEN now() END
          FROM given g
         WHERE n.merchant_id = ANY (ARRAY[g.merchant_id]) AND n.id = g.notification_id
           AND n.state NOT IN ('delivered', 'failed')  -- is 'waiting', without using its index
           -- If it was scheduled again during this attempt, a failure does not count.
           AND (n.attempts = g.attempts - 1 OR g.state = 'delivered')"""
_RECORD = f"""{STORED} {_CHANGE}
        RETURNING n.merchant_id, n.environment, n.url, n.trx_id, n.state, g.error"""


# The statement is the same for all batches without a final failure.
_RECORD_AND_END = f"""{STORED}, changed AS ({_CHANGE} RETURNING true) {end_of_jobs("changed")}"""


async def record(db: Database, results: Sequence[DeliveryResult]) -> list[bool]:
    """Stores attempts, and ends the given jobs. Returns whether each result's job was deleted."""
    attempts = [each.attempt for each in results]
    if not any(each.state == "failed" for each in attempts):
        return await record_and_end(db, _RECORD_AND_END, results)
    async with db.transaction() as connection:
        for row in await connection.records(_RECORD, *parameters(attempts)):
            if row["state"] == "failed" and row["environment"] == Environment.PRODUCTION:
                await _mail_failure(connection, row)
    return [False] * len(results)


async def record_and_end(db: Database, sql: str, results: Sequence[DeliveryResult]) -> list[bool]:
    """Runs an SQL statement that starts with `STORED` and ends with `ended`."""
    jobs = [each.ended for each in results if each.ended is not None]
    attempts = parameters([each.attempt for each in results])
    deleted = {tuple(row) for row in await db.records_by_key(sql, *attempts, *keys(jobs))}
    return [each.ended is not None and key(each.ended) in deleted for each in results]


async def _mail_failure(connection: Connection, row: Any) -> None:
    await outbox.put(
        connection,
        MailKind.ENDPOINT_FAILING,
        {"url": row["url"], "trx_id": row["trx_id"], "error": row["error"] or ""},
        path=f"/dashboard/{row['environment']}/notifications?state=failed",
        merchant_id=row["merchant_id"],
    )


NOTIFICATION_COLUMNS = columns(Notification)
_NOTIFICATION = f"SELECT {NOTIFICATION_COLUMNS} FROM notification"


async def notifications(
    db: Database,
    *,
    merchant_id: int | None = None,
    state: str | None = None,
    trx_id: str | None = None,
    since: datetime | None = None,
    decided_since: datetime | None = None,
    limit: int = 1000,
) -> list[Notification]:
    return await db.rows(
        Notification,
        _NOTIFICATION
        + """
         WHERE ($1::bigint IS NULL OR merchant_id = $1) AND ($2::text IS NULL OR state = $2)
           AND ($3::text IS NULL OR trx_id = $3)
           AND ($4::timestamptz IS NULL OR created_at >= $4)
           AND ($5::timestamptz IS NULL OR decided_at >= $5)
         ORDER BY created_at DESC, id DESC LIMIT $6""",
        *(merchant_id, state, trx_id, since, decided_since, limit),
    )


async def notification(db: Database | Connection, notification_id: str) -> Notification | None:
    merchant_id = notification_ids.merchant_of(notification_id)
    if merchant_id is None:
        return None
    return await db.row(
        Notification,
        _NOTIFICATION + " WHERE merchant_id = $1 AND id = $2",
        *(merchant_id, notification_id),
    )


async def attempts(db: Database, merchant_id: int, notification_id: str) -> list[DeliveryAttempt]:
    """Returns a message's attempts. `notification_id` is the message's key."""
    message_id = notification_id.partition("/")[0]
    records: list[Any] = await db.records(
        f"""
        SELECT {columns(DeliveryAttempt)},
               (SELECT n.environment FROM notification n
                 WHERE n.merchant_id = $1 AND n.id = $3) AS environment
          FROM delivery_attempt
         WHERE merchant_id = $1 AND notification_id = $2 ORDER BY number""",
        *(merchant_id, notification_id, message_id),
    )
    return [_attempt(message_id, **record) for record in records]


def _attempt(
    message_id: str, *, at: datetime, headers: str, environment: str, **fields: Any
) -> DeliveryAttempt:
    sent: dict[str, str] = msgspec.json.decode(headers)
    if "webhook-id" not in sent:  # earlier versions stored all headers
        now = int(at.timestamp())
        sent = signing.complete(sent, notification_id=message_id, environment=environment, now=now)
    return DeliveryAttempt(at=at, headers=sent, **fields)


async def last_delivered_url(db: Database, merchant_id: int, environment: str) -> str | None:
    """Returns the URL of the merchant's most recent delivered notification."""
    url: str | None = await db.value(
        """
        SELECT url FROM (
               SELECT id, url, environment, state FROM notification
                WHERE merchant_id = $1 ORDER BY id DESC LIMIT 100) AS latest
         WHERE environment = $2 AND state = 'delivered' ORDER BY id DESC LIMIT 1""",
        *(merchant_id, environment),
    )
    return url


async def blocked_urls(db: Database, merchant_id: int, environment: str) -> list[str]:
    """Returns recent URLs whose last attempt failed because the address is not public."""
    records = await db.records(
        """
        SELECT url FROM (
               SELECT DISTINCT ON (url) id, url, state FROM (
                      SELECT id, url, environment, state, attempts FROM notification
                       WHERE merchant_id = $1 ORDER BY id DESC LIMIT 100) AS latest
                WHERE environment = $2 AND attempts > 0
                ORDER BY url, id DESC) AS tried
         WHERE state <> 'delivered' AND (
               SELECT a.error_code = $3 FROM delivery_attempt a
                WHERE a.merchant_id = $1 AND a.notification_id = tried.id
                ORDER BY a.number DESC LIMIT 1)
         ORDER BY id DESC LIMIT 3""",
        *(merchant_id, environment, DeliveryErrorCode.NOT_REACHED),
    )
    return [record["url"] for record in records]


class Backlog(msgspec.Struct, frozen=True):
    waiting: int
    oldest_seconds: float


async def backlog(db: Database) -> Backlog:
    found = await db.row(
        Backlog,
        """
        SELECT count(*) AS waiting,
               coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS oldest_seconds
          FROM notification WHERE state = 'waiting' AND NOT lives_elsewhere(merchant_id)""",
    )
    assert found is not None
    return found


async def delete_old_attempts(db: Database, age: timedelta) -> None:
    await delete_older(db, "delivery_attempt", "at", age)
