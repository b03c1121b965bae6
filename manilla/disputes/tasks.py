"""Jobs of disputes: polling providers, sending answers, and watching deadlines."""

from datetime import UTC, datetime, timedelta

import msgspec

from manilla.disputes import evidence, mails, statements, states, store, unknown
from manilla.disputes.dispute import AnswerState, Dispute, DisputeEvent, DisputeStatus
from manilla.disputes.service import api_of
from manilla.job_kinds import JobKind
from manilla.kit import crash, jobs
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, Work
from manilla.ledger import trx_ids
from manilla.payments import store as payments
from manilla.payments.payment import SANDBOX, PaymentStatus
from manilla.platform.settings import CurrentSettings
from manilla.providers.port import (
    Answer,
    DisputeAnswer,
    DisputeDesk,
    DisputeState,
    Done,
    EvidenceFile,
    RefusalCode,
    Refused,
    ReportedDisputeStatus,
    Unknown,
)
from manilla.providers.rails import Rails
from manilla.reconciliation import disputed

CONCURRENCY = 8
POLL_SECONDS = 600.0
RETRY_SECONDS = 60.0
# An open dispute is queried at least this often.
QUERY_SECONDS = 3600.0
LISTED = timedelta(days=45)
PAGES_MAX = 100


class DisputeTasks:
    def __init__(
        self, db: Database, keyring: Keyring, platform: CurrentSettings, rails: Rails
    ) -> None:
        self._db = db
        self._keyring = keyring
        self._platform = platform
        self._rails = rails

    def job_handlers(self) -> dict[str, Work]:
        return {
            JobKind.DISPUTE: Work(self.advance, concurrency=CONCURRENCY),
            JobKind.DISPUTES: Work(self.find, concurrency=CONCURRENCY),
        }

    async def schedule(self) -> None:
        """Creates the job of each account that lists disputes, in its API or on its statement."""
        listing = [
            name
            for name, current in self._rails.accounts.items()
            if current.is_valid and (api := self._api(name)) is not None and api.can_list
        ]
        wanted = {*listing, *await disputed.providers(self._db)}
        await jobs.put_missing(self._db, JobKind.DISPUTES, sorted(wanted))

    # Finding disputes.

    async def find(self, job: Job) -> float | None:
        """Finds an account's disputes, queries one of a webhook, or opens one in the sandbox.

        The job's subject is the account, `ACCOUNT:PROVIDER'S ID`, or the id of a sandbox payment.
        """
        provider, _, reference = job.subject.partition(":")
        if trx_ids.merchant_of(job.subject) is not None:
            await self._open_in_sandbox(job)
            return None
        api = self._api(provider)
        if reference:
            return await self._query(provider, api, reference)
        wait = None
        if api is not None and api.can_list:
            wait = await self._poll(provider, api)
        if wait is None:  # the statement may show disputes that the API does not
            await statements.open_missing(self._db, self._platform.now, provider)
        return wait

    async def _poll(self, provider: str, api: DisputeDesk) -> float | None:
        """Reports all listed disputes. A page without a usable answer is requested again later."""
        until = datetime.now(UTC)
        start: str | None = None
        for _ in range(PAGES_MAX):
            asked_at = datetime.now(UTC)
            answer = await api.listed(until - LISTED, until, start)
            if not isinstance(answer, Done):
                return RETRY_SECONDS
            for state in answer.value.disputes:
                await self._report(provider, state, asked_at)
            for reference in answer.value.unclear:
                detail = f"{provider} lists a dispute whose contents cannot be interpreted."
                await unknown.open_case(self._db, provider, reference, detail)
            start = answer.value.next
            if start is None:
                return None
        return None

    async def _query(self, provider: str, api: DisputeDesk | None, reference: str) -> float | None:
        if api is None:
            detail = f"{provider} has sent a webhook about this dispute. Look it up and record it."
            await unknown.open_case(self._db, provider, reference, detail)
            return None
        asked_at = datetime.now(UTC)
        match await api.state(reference):
            case Done(state) if state.status is ReportedDisputeStatus.NOT_FOUND:
                detail = f"A signed webhook names a dispute that {provider} does not know."
                await unknown.open_case(self._db, provider, reference, detail)
            case Done(state):
                await self._report(provider, state, asked_at)
            case Refused(_, guidance):
                await unknown.open_case(
                    self._db, provider, reference, f"{provider} rejects: {guidance}"
                )
            case Unknown(reason, needs_lookup=True):
                detail = f"{reason}. Look the dispute up at the provider, and record it."
                await unknown.open_case(self._db, provider, reference, detail)
            case Unknown():
                return RETRY_SECONDS
        return None

    async def _open_in_sandbox(self, job: Job) -> None:
        payment = await payments.payment(self._db, job.merchant_id, job.subject)
        assert payment is not None
        assert payment.is_sandbox
        if payment.status is not PaymentStatus.SUCCESS:
            return
        state = DisputeState(
            provider_reference=f"sandbox-{payment.trx_id}",
            status=ReportedDisputeStatus.NEEDS_RESPONSE,
            charge_reference=payment.trx_id,
            amount=payment.quote.customer_pays,
            stage="new",
            category="fraud",
            reason="The sandbox was instructed to dispute this payment.",
        )
        await self._report(SANDBOX, state, datetime.now(UTC))

    # One dispute.

    async def advance(self, job: Job) -> float | None:
        """Performs the dispute's next step: sends the answer, queries the status, or reminds."""
        dispute = await store.dispute(self._db, job.merchant_id, job.subject)
        if dispute is None:
            return None
        if not dispute.is_open:
            async with states.changing(self._db, self._platform.now, dispute) as (change, ended):
                await change.refresh(ended)
            return None
        if dispute.status is DisputeStatus.SUBMITTED and dispute.is_sandbox:
            return await self._decide_in_sandbox(dispute)
        api, wait = api_of(self._rails, dispute), QUERY_SECONDS
        if dispute.answer is AnswerState.WAITING and api is None:
            detail = "Send the answer at the provider, because it has no API for it."
            await self._leave_to_administrator(dispute, detail)
        elif api is not None and dispute.answer is AnswerState.WAITING:
            wait = await self._send(job, dispute, api)
        elif api is not None:
            wait = await self._ask(dispute, api)
        return await self._watch(dispute, wait)

    async def _send(self, job: Job, dispute: Dispute, api: DisputeDesk) -> float:
        """Sends the answer. Its outcome is unknown from before the request until a response."""
        files = await self._upload(dispute, api)
        if not isinstance(files, Done):
            return await self._after_answer(dispute, files)
        if not await self._mark(job, dispute, AnswerState.WAITING, AnswerState.SENDING):
            return 0
        crash.point("before_dispute_answer")
        order = DisputeAnswer(
            provider_reference=dispute.provider_reference,
            is_accepted=dispute.is_acceptance,
            amount=dispute.accepted or msgspec.structs.replace(dispute.amount, minor=0),
            text=dispute.evidence_text,
            fields=dispute.fields,
            files=files.value,
            disputed=dispute.amount,
        )
        asked_at = datetime.now(UTC)
        answer = await api.answer(order)
        crash.point("after_dispute_answer")
        match answer:
            case Done(state):
                await self._report(dispute.provider, state, asked_at, AnswerState.SENT)
                return 0
            case Unknown(never_sent=True):
                await self._mark(job, dispute, AnswerState.SENDING, AnswerState.WAITING)
                return RETRY_SECONDS
        return await self._after_answer(dispute, answer)

    async def _upload(self, dispute: Dispute, api: DisputeDesk) -> Answer[tuple[str, ...]]:
        """Uploads the files that the provider does not have yet. An acceptance has no files."""
        names = []
        stored = await store.files_of(self._db, dispute.merchant_id, dispute.trx_id)
        for file in [] if dispute.is_acceptance else stored:
            if file.provider_file is None:
                content = await evidence.read(self._db, self._keyring, file)
                sent = EvidenceFile(file.name, file.media_type, content)
                answer = await api.upload(dispute.provider_reference, sent)
                if isinstance(answer, Refused):
                    return answer
                if isinstance(answer, Unknown):
                    # A file that was uploaded twice does no harm.
                    return msgspec.structs.replace(answer, never_sent=True)
                await evidence.save_upload(self._db, file, answer.value)
                names.append(answer.value)
            else:
                names.append(file.provider_file)
        return Done(tuple(names))

    async def _after_answer(self, dispute: Dispute, answer: Refused | Unknown) -> float:
        """Returns a rejected answer to the merchant. After an unknown outcome, the job asks.

        If the provider's API cannot send such an answer, an administrator sends it.
        """
        if isinstance(answer, Unknown):
            return RETRY_SECONDS
        if answer.code is RefusalCode.NOT_SUPPORTED:
            await self._leave_to_administrator(dispute, answer.guidance)
            return QUERY_SECONDS
        async with states.changing(self._db, self._platform.now, dispute) as (change, current):
            if current.is_on_its_way:
                await change.reject(current, answer.guidance)
        return 0

    async def _leave_to_administrator(self, dispute: Dispute, detail: str) -> None:
        async with states.changing(self._db, self._platform.now, dispute) as (change, current):
            if current.is_on_its_way:
                await change.leave_to_administrator(current, detail)

    async def _ask(self, dispute: Dispute, api: DisputeDesk) -> float:
        """Queries the status. After an unknown outcome, this decides whether to send again."""
        asked_at = datetime.now(UTC)
        answer = await api.state(dispute.provider_reference)
        is_sending = dispute.answer is AnswerState.SENDING
        if isinstance(answer, Unknown) and answer.needs_lookup:
            if is_sending:
                detail = "Look up at the provider whether it has the answer, and send it if not."
                await self._leave_to_administrator(dispute, detail)
            return QUERY_SECONDS
        if not isinstance(answer, Done):
            return RETRY_SECONDS
        if not is_sending:
            await self._report(dispute.provider, answer.value, asked_at)
        elif answer.value.status is ReportedDisputeStatus.NEEDS_RESPONSE:
            await self._mark(None, dispute, AnswerState.SENDING, AnswerState.WAITING)
            return 0
        elif answer.value.status is not ReportedDisputeStatus.NOT_FOUND:
            await self._report(dispute.provider, answer.value, asked_at, AnswerState.SENT)
        return QUERY_SECONDS

    async def _mark(
        self, job: Job | None, dispute: Dispute, before: AnswerState, after: AnswerState
    ) -> bool:
        """Changes where the answer is, unless it was changed or another worker has the job."""
        async with states.changing(self._db, self._platform.now, dispute) as (change, current):
            is_same = current.answer is before and current.answered_at == dispute.answered_at
            if not is_same or (job and not await jobs.is_held(change.connection, job)):
                return False
            await store.set_answer(change.connection, current, after)
        return True

    async def _decide_in_sandbox(self, dispute: Dispute) -> float | None:
        """Decides by the evidence: `won` or `lost` in the text. Other answers stay open."""
        status, text = None, dispute.evidence_text.lower()
        if dispute.is_acceptance:
            status = ReportedDisputeStatus.ACCEPTED
        elif "won" in text:
            status = ReportedDisputeStatus.WON
        elif "lost" in text:
            status = ReportedDisputeStatus.LOST
        if status is not None:
            state = DisputeState(
                provider_reference=dispute.provider_reference,
                status=status,
                charge_reference=dispute.payment_trx_id,
                amount=dispute.amount,
            )
            await self._report(SANDBOX, state, datetime.now(UTC), AnswerState.SENT)
        return None

    async def _watch(self, dispute: Dispute, wait: float) -> float:
        """Reminds, or records a missed deadline. Returns the seconds until the next step."""
        settings = self._platform.now
        hours = sorted(map(int, settings.dispute_reminder_hours.split(",")), reverse=True)
        async with states.changing(self._db, settings, dispute) as (change, found):
            current = await change.refresh(found)
            if not current.is_unanswered or current.is_missed:
                return wait
            if current.is_due:
                after = msgspec.structs.replace(current, missed_at=datetime.now(UTC))
                event = DisputeEvent.DEADLINE_MISSED
                await change.write(current, after, event, "the deadline was missed")
                return wait
            left = (current.respond_by - datetime.now(UTC)).total_seconds()
            passed = [hour for hour in hours if left <= hour * 3600]
            if len(passed) > current.reminders:
                await mails.put_reminder(change.connection, current, passed[-1])
                await store.set_reminders(change.connection, current, len(passed))
            coming = [left - hour * 3600 for hour in hours[len(passed) :]]
            return max(0.0, min(wait, left, *coming))

    # What several steps share.

    def _api(self, provider: str) -> DisputeDesk | None:
        adapter = self._rails.adapter(provider)
        return None if adapter is None else adapter.disputes

    async def _report(
        self,
        provider: str,
        state: DisputeState,
        asked_at: datetime,
        answered: AnswerState | None = None,
    ) -> None:
        settings = self._platform.now
        await states.report(
            self._db, settings, provider, state, asked_at=asked_at, answered=answered
        )
