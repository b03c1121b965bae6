"""Issues the invoices of all merchants after the end of each month."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, date, datetime

import structlog

from manilla.invoices import fees, issuing
from manilla.invoices.invoice import MONTH_FORMAT, InvoiceRefused, read_month
from manilla.job_kinds import JobKind
from manilla.kit import crash, jobs
from manilla.kit.clock import next_month
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job, Work
from manilla.platform.settings import CurrentSettings

log = structlog.get_logger(__name__)

RETRY_SECONDS = 900.0
SCHEDULE_SECONDS = 600
LEDGER_SECONDS = 1800  # SQL timeout for the sums over a month of the ledger


class InvoiceTasks:
    def __init__(
        self,
        db: Database,
        platform: CurrentSettings,
        patient: Callable[[], AbstractAsyncContextManager[Database]],
    ) -> None:
        self._db, self._platform, self._patient = db, platform, patient

    def job_handlers(self) -> dict[str, Work]:
        return {JobKind.INVOICES: Work(self.issue_month, concurrency=1)}

    async def schedule(self) -> None:
        """Adds a job for each month that has ended and whose invoices were not issued."""
        since = self._platform.now.invoices_since
        if since:
            done = await self._db.records("SELECT month FROM invoice_month")
            missing = _ended_since(read_month(since)) - {record["month"] for record in done}
            subjects = sorted(month.strftime(MONTH_FORMAT) for month in missing)
            await jobs.put_missing(self._db, JobKind.INVOICES, subjects)

    async def issue_month(self, job: Job) -> float | None:
        """Issues the invoices that are missing. Each invoice has its own transaction."""
        month, settings = read_month(job.subject), self._platform.now
        try:
            issuing.supplier(settings)
            await fees.check_ended(self._db, month)
        except InvoiceRefused as refusal:
            log.warning("invoices_wait", month=job.subject, why=refusal.text)
            return RETRY_SECONDS
        async with self._patient() as patient:
            month_fees = await fees.of_month(patient, month)
        skipped = 0
        for found in month_fees:
            try:
                await issuing.issue(self._db, settings, month, found)
            except Refusal as refusal:  # such as of a merchant that is being moved
                skipped += 1
                log.warning("invoice_skipped", merchant_id=found.merchant_id, why=refusal.text)
            crash.point("after_invoice_is_issued")
        if skipped:
            return RETRY_SECONDS
        await self._db.execute(
            "INSERT INTO invoice_month (month) VALUES ($1) ON CONFLICT DO NOTHING", month
        )
        return None


def _ended_since(month: date) -> set[date]:
    ended = set()
    while fees.bounds(month)[1] + fees.WAIT <= datetime.now(UTC):
        ended.add(month)
        month = next_month(month)
    return ended
