"""The jobs that send emails from the outbox."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime

import structlog

from manilla import metrics
from manilla.job_kinds import JobKind
from manilla.kit import crash
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, Work
from manilla.mail import queries
from manilla.mail.kinds import RULES, MailKind
from manilla.mail.letter import LetterWriter
from manilla.mail.queries import Mail
from manilla.mail.transport import MailAttachment, NotSent, Transport

log = structlog.get_logger(__name__)

CONCURRENCY = 8
# Minutes from each failure to the next attempt. The last value repeats until the email expires.
RETRY_MINUTES = (1, 5, 15, 30, 60, 120, 240)
# An `Attach` function creates attachments when an email is sent, so they need not be stored.
# Every attempt must create the same attachments.
Attach = Callable[[Mail], Awaitable[Sequence[MailAttachment]]]
NO_ATTACHMENTS: Mapping[MailKind, Attach] = {}
NO_TRANSPORT = "this installation is not configured to send email"


class MailDelivery:
    """Sends emails. In development mode without a transport, emails are stored and displayed."""

    def __init__(
        self,
        db: Database,
        writer: LetterWriter,
        transport: Transport | None,
        *,
        is_development: bool,
        attach: Mapping[MailKind, Attach] = NO_ATTACHMENTS,
    ) -> None:
        self._db = db
        self._writer = writer
        self._transport = transport
        self._is_development = is_development
        self._attach = attach

    def job_handlers(self) -> dict[str, Work]:
        return {
            JobKind.MAIL: Work(self.deliver, concurrency=CONCURRENCY),
            JobKind.RECEIPT_MAIL: Work(self.deliver, concurrency=CONCURRENCY, is_fair=True),
        }

    async def deliver(self, job: Job) -> float | None:
        """Makes one attempt to send a message.

        If the process crashes after the mail server has accepted the message, the message is sent
        again with the same Message-ID.
        """
        mails = await queries.claim_message(self._db, job)
        if isinstance(mails, float):
            return mails
        if not mails:
            return None
        if self._transport is None and not self._is_development:
            await queries.record_failure(self._db, mails, NO_TRANSPORT, state="skipped")
            return None
        try:
            if _age_seconds(mails[0]) > lasts_seconds(mails[0]):
                raise NotSent("it waited too long", is_final=True)
            message = self._writer.write(mails, await self._attachments(mails[0]))
            if self._transport is not None:
                await self._transport.send(message)
        except NotSent as failure:
            return await self._retry(mails, failure)
        crash.point("after_mail_is_sent")
        await queries.record_sent(self._db, mails, keeps_content=self._is_development)
        metrics.mails.labels(mails[0].kind, "sent").inc()
        return None

    async def _attachments(self, mail: Mail) -> Sequence[MailAttachment]:
        attach = self._attach.get(MailKind(mail.kind))
        return () if attach is None else await attach(mail)

    async def _retry(self, mails: list[Mail], failure: NotSent) -> float | None:
        """Records the failure.

        Returns the seconds until the next attempt, or None after the last attempt.
        """
        first = mails[0]
        wait = 60.0 * RETRY_MINUTES[min(first.attempts, len(RETRY_MINUTES) - 1)]
        is_final = failure.is_final or _age_seconds(first) + wait > lasts_seconds(first)
        state = "failed" if is_final else "waiting"
        await queries.record_failure(self._db, mails, str(failure), state=state)
        metrics.mails.labels(first.kind, "failed" if is_final else "postponed").inc()
        log.warning("mail_not_sent", kind=first.kind, id=first.id, why=str(failure), final=is_final)
        return None if is_final else wait


def _age_seconds(mail: Mail) -> float:
    return (datetime.now(UTC) - mail.created_at).total_seconds()


def lasts_seconds(mail: Mail) -> float:
    return RULES[MailKind(mail.kind)].lasts.total_seconds()
