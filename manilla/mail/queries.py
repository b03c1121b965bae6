"""SQL queries for the worker that sends emails."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from manilla.kit import jobs
from manilla.kit.database.connections import Connection, Database
from manilla.kit.jobs import Job
from manilla.mail.kinds import RULES, MailKind

TOGETHER_MAX = 1000  # maximum number of emails in one message
KEEP = timedelta(days=30)
FORGET_MAX = 10_000


class Mail(msgspec.Struct, frozen=True):
    merchant_id: int
    id: int
    kind: str
    person_id: int | None
    recipient: str
    facts: str
    path: str
    sealed: bytes | None
    message_id: int | None
    attempts: int
    created_at: datetime

    @property
    def shown_facts(self) -> dict[str, str]:
        return msgspec.json.decode(self.facts, type=dict[str, str])


_MAIL = """
    SELECT merchant_id, id, kind, person_id, recipient, facts::text AS facts, path, sealed,
           message_id, attempts, created_at
      FROM mail"""


async def claim_message(db: Database, job: Job) -> list[Mail] | float:
    """Returns the emails to send as one message, or the seconds until they may be sent.

    The first email's id is part of the Message-ID. The emails of a message are therefore fixed
    before it is sent, so that a message that is sent again after a crash is identical.
    """
    async with db.transaction() as connection:
        if not await jobs.is_held(connection, job):
            return []
        mail = await _lock_waiting(connection, job.merchant_id, int(job.subject))
        if mail is None or mail.message_id not in (None, mail.id):
            return []  # the email is part of another message, or was sent or has failed
        if mail.message_id is None:
            wait = await _seconds_to_wait(connection, mail)
            if wait > 0:
                return wait
            await _gather(connection, mail)
        return await connection.rows(
            Mail,
            _MAIL + " WHERE merchant_id = $1 AND message_id = $2 AND state = 'waiting' ORDER BY id",
            *(mail.merchant_id, mail.id),
        )


async def _lock_waiting(connection: Connection, merchant_id: int, mail_id: int) -> Mail | None:
    """Locks a waiting email, so that no other email of its kind is sent to the person meanwhile."""
    await connection.execute(
        """
        SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(':', 'mail', merchant_id,
                   coalesce(person_id::text, recipient), kind), 0))
          FROM mail WHERE merchant_id = $1 AND id = $2""",
        *(merchant_id, mail_id),
    )
    return await connection.row(
        Mail,
        _MAIL + " WHERE merchant_id = $1 AND id = $2 AND state = 'waiting' FOR UPDATE",
        *(merchant_id, mail_id),
    )


async def _seconds_to_wait(connection: Connection, mail: Mail) -> float:
    """Returns how many seconds to wait after the person's previous email of this kind.

    While the previous email is being sent, the result is the whole interval.
    """
    gathered_for = RULES[MailKind(mail.kind)].gathered_for
    if gathered_for is None:
        return 0
    found: float = await connection.value(
        """
        SELECT coalesce(max(extract(epoch FROM coalesce(ended_at, now()) + $4 - now())), 0)::float8
          FROM mail
         WHERE merchant_id = $1 AND person_id = $2 AND kind = $3 AND message_id = id
           AND (state = 'waiting' OR state = 'sent' AND ended_at > now() - $4::interval)""",
        *(mail.merchant_id, mail.person_id, mail.kind, gathered_for),
    )
    return found


async def _gather(connection: Connection, mail: Mail) -> None:
    """Selects the emails for a message: only this email or, for some kinds, all waiting emails."""
    is_alone = RULES[MailKind(mail.kind)].gathered_for is None
    await connection.execute(
        """
        UPDATE mail SET message_id = $2
         WHERE merchant_id = $1 AND id = ANY (ARRAY(
               SELECT id FROM mail
                WHERE merchant_id = $1 AND person_id IS NOT DISTINCT FROM $3 AND kind = $4
                  AND (id = $2 OR NOT $5) AND state = 'waiting' AND message_id IS NULL
                ORDER BY id <> $2, id LIMIT $6))""",
        *(mail.merchant_id, mail.id, mail.person_id, mail.kind, is_alone, TOGETHER_MAX),
    )


async def record_sent(db: Database, sent: Sequence[Mail], *, keeps_content: bool) -> None:
    """Marks the message's emails as sent. Deletes their content unless `keeps_content` is True."""
    await db.execute(
        """
        UPDATE mail SET state = 'sent', ended_at = now(), attempts = attempts + 1,
               last_error = NULL,
               facts = CASE WHEN $3 THEN facts ELSE '{}' END,
               path = CASE WHEN $3 THEN path ELSE '' END,
               sealed = CASE WHEN $3 THEN sealed END
         WHERE merchant_id = $1 AND message_id = $2 AND state = 'waiting'""",
        *(sent[0].merchant_id, sent[0].message_id, keeps_content),
    )


async def record_failure(
    db: Database, tried: Sequence[Mail], error: str, *, state: str = "waiting"
) -> None:
    """Records a failed attempt. After the last attempt, `state` is `failed` or `skipped`."""
    await db.execute(
        """
        UPDATE mail SET attempts = attempts + 1, last_error = $3, state = $4,
               ended_at = CASE WHEN $4 <> 'waiting' THEN now() END
         WHERE merchant_id = $1 AND message_id = $2 AND state = 'waiting'""",
        *(tried[0].merchant_id, tried[0].message_id, error, state),
    )


async def delete_old(db: Database) -> None:
    """Deletes a limited number of old emails."""
    await db.execute(
        """
        DELETE FROM mail WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM mail WHERE created_at < now() - $1::interval LIMIT $2))""",
        *(KEEP, FORGET_MAX),
    )


async def message_of(db: Database, mail_id: int) -> list[Mail]:
    """Returns all emails of the message that contains this email, or only this email."""
    mail = await find(db, mail_id)
    if mail is None or mail.message_id is None:
        return [] if mail is None else [mail]
    return await db.rows(
        Mail,
        _MAIL + " WHERE merchant_id = $1 AND message_id = $2 ORDER BY id",
        *(mail.merchant_id, mail.message_id),
    )


async def find(db: Database | Connection, mail_id: int) -> Mail | None:
    """Returns the email, or None. The content of a sent email may have been deleted."""
    return await db.row(Mail, _MAIL + " WHERE id = $1", mail_id)
