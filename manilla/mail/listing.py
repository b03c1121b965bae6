"""Lists emails for administrators, and sends failed emails again."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from manilla.audit import audit
from manilla.kit import jobs, listing
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import Reads, columns
from manilla.kit.errors import Refusal
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Conditions, Number, Page
from manilla.kit.listing.sorting import NUMBERED, RecordFilter, Selection, Totals, read_as
from manilla.mail.kinds import RULES, MailKind
from manilla.mail.outbox import job_kind


class MailState(StrEnum):
    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"
    SKIPPED = "skipped"  # email was not configured


class ListedMail(msgspec.Struct, frozen=True):
    """An email without its content."""

    id: int
    merchant_id: int
    kind: str
    recipient: str
    state: str
    message_id: int | None
    attempts: int
    last_error: str | None
    created_at: datetime
    ended_at: datetime | None


class MailFilter(RecordFilter, frozen=True, kw_only=True):
    state: MailState | None = None
    kind: MailKind | None = None
    merchant_id: Number | None = None
    search: str | None = None  # a complete email address or an email's id


class MailNotFound(Refusal):
    status, code = 404, "MAIL_NOT_FOUND"
    message = "There is no such email."


class MailNotFailed(Refusal):
    status, code = 409, "MAIL_NOT_FAILED"
    message = "Only a failed email can be sent again, and only while its content is still useful."


FIELDS = Fields(ListedMail, merchant_id=lambda mail: mail.merchant_id or None)
_LISTED = f"SELECT {columns(ListedMail)} FROM mail"


async def mails(
    db: Reads, wanted: MailFilter, *, after: str | None = None, limit: int = PAGE_ROWS
) -> Page[ListedMail]:
    return await _selected(wanted).page(db, read_as(ListedMail), wanted.sort, after, limit)


async def totals(db: Reads, wanted: MailFilter) -> Totals:
    return await _selected(wanted).count(db)


def _selected(wanted: MailFilter) -> Selection:
    conditions = (
        Conditions()
        .add_given("state = {}", wanted.state)
        .add_given("kind = {}", wanted.kind)
        .add_given("merchant_id = {}", wanted.merchant_id)
        .add_given("created_at >= {}", wanted.since)
        .add_given("created_at < {}", wanted.until)
    )
    text = listing.search_text(wanted.search)
    if text is not None:
        conditions.add(
            "(lower(recipient) = {} OR id = {}::bigint)", text.lower(), listing.number(text)
        )
    return Selection("mail", columns(ListedMail), NUMBERED, conditions)


async def count_failed(db: Database) -> int:
    return await db.number("SELECT count(*) FROM mail WHERE state = 'failed'")


async def get(db: Database, mail_id: int) -> ListedMail:
    found = await db.row(ListedMail, _LISTED + " WHERE id = $1", mail_id)
    if found is None:
        raise MailNotFound
    return found


async def retry(db: Database, mail_id: int) -> None:
    """Schedules a failed message again, with a full set of attempts."""
    mail = await get(db, mail_id)
    rule = RULES[MailKind(mail.kind)]
    async with db.transaction() as connection:
        if not await _make_wait(connection, mail, rule.lasts):
            raise MailNotFailed
        subject = str(mail.message_id)
        await jobs.put(connection, mail.merchant_id, job_kind(rule), subject)
        await audit.record(
            connection, "mail.retry", f"mail:{mail.id}", merchant_id=mail.merchant_id or None
        )


async def _make_wait(connection: Connection, mail: ListedMail, lasts: timedelta) -> bool:
    return await connection.has_row(
        """
        UPDATE mail SET state = 'waiting', attempts = 0, ended_at = NULL
         WHERE merchant_id = $1 AND message_id = $2 AND state = 'failed'
           AND created_at > now() - $3::interval
        RETURNING id""",
        *(mail.merchant_id, mail.message_id, lasts),
    )
