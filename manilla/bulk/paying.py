"""Pays the rows of a confirmed batch in order, each row at most once.

The SQL statement that creates a row's payout also marks the row as paid. It creates no payout if
the row was already paid, rejected or stopped. So a stalled worker can neither pay a row twice nor
pay a row of a stopped file.
"""

import time
from datetime import UTC, datetime, timedelta

import structlog

from manilla.bulk import batches, checks, drafts, stopping, store, transitions
from manilla.bulk.store import Batch, BatchKind, BatchRow, BatchStatus, RowState
from manilla.kit.database.connections import Connection, Database
from manilla.kit.display import money
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.jobs import Job, Work
from manilla.kit.money import Money
from manilla.ledger.idempotency import RepeatKey
from manilla.ledger.transactions import DuplicateReference
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.merchants import limits
from manilla.merchants.directory import Caller, Directory
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts import ordering
from manilla.payouts.initiate import PayoutInitiation, PayoutOrder
from manilla.transfers.refusals import (
    PROVIDER_RETRY_SECONDS,
    InsufficientBalance,
    ProviderUnavailable,
    RowDecided,
)

log = structlog.get_logger(__name__)

CONCURRENCY = 4
# A step must end long before the job's lease expires, or two workers could process the same rows.
STEP_SECONDS, ROWS_A_STEP = 20, 50
NO_LIMIT = 2**31  # disables the rate limit, which applies only to API requests
PROVIDER_PATIENCE = timedelta(hours=1)  # how long to retry while a provider is unavailable
NO_METHOD = "The payout method no longer exists."
STOPPED = "Not paid: the wallet could no longer cover row {}, and rows are paid in order."


class BulkPayoutTasks:
    def __init__(
        self, db: Database, directory: Directory, catalogue: Catalogue, initiation: PayoutInitiation
    ) -> None:
        self._db = db
        self._directory = directory
        self._catalogue = catalogue
        self._initiation = initiation

    def job_handlers(self) -> dict[str, Work]:
        return {batches.PAY: Work(self.advance, concurrency=CONCURRENCY, is_fair=True)}

    async def advance(self, job: Job) -> float | None:
        batch = await store.batch(self._db, job.merchant_id, job.subject)
        if batch is not None and batch.status is BatchStatus.ASKED:
            return await batches.expire(self._db, batch)
        if batch is None or batch.status is not BatchStatus.RUNNING:
            return None
        rows = await store.rows(
            self._db, batch.merchant_id, batch.id, state=RowState.READY, limit=ROWS_A_STEP
        )
        if not rows:
            return await self._end(batch)
        if not await batches.is_as_confirmed(self._db, batch):
            log.error("payout_file_altered", merchant_id=batch.merchant_id, batch=batch.id)
            await batches.reject_altered(self._db, batch)
            return 0
        caller = await self._directory.of(batch.environment, batch.merchant_id)
        ends_at = time.monotonic() + STEP_SECONDS
        for row in rows:
            try:
                is_covered = await self._pay(caller, batch, row)
            except ProviderUnavailable:
                return PROVIDER_RETRY_SECONDS  # nothing was debited, so the job retries the row
            if not is_covered or time.monotonic() > ends_at:
                break
        return 0

    async def _end(self, batch: Batch) -> float | None:
        """Ends the batch. If the batch was stopped, first cancels its unsent payouts."""
        if batch.stopped_at is not None:
            wait = await stopping.cancel_unsent(self._db, batch)
            if wait is not None:
                return wait
        async with self._db.transaction() as connection:
            if await transitions.end(connection, batch) and batch.kind is BatchKind.FILE:
                await _mail_result(connection, batch)
        return None

    async def _pay(self, caller: Caller, batch: Batch, row: BatchRow) -> bool:
        """Pays one row.

        Returns False if the wallet cannot cover the row, so that no later row is paid.
        """
        method = self._catalogue.by_id(MethodKind.WITHDRAW, batch.method_id)
        if method is None:
            await self._refuse(batch, row, NO_METHOD)
            return True
        ticket = limits.rate_ticket(batch.merchant_id, "bulk", NO_LIMIT)
        try:
            trx_id = await ordering.place(
                self._initiation, caller, _order(batch, row, method), ticket
            )
        except Unavailable:
            raise  # the payout may already exist, so the job retries with the same reference
        except RowDecided:
            pass  # another worker paid the row, or a user stopped the file
        except DuplicateReference as duplicate:
            await self._decide_known(batch, row, str((duplicate.details or {})["trx_id"]))
        except InsufficientBalance as refusal:
            # The wallet might cover a smaller later row, but rows must be paid in file order.
            later = STOPPED.format(row.number)
            await transitions.refuse_from(self._db, batch, row.number, refusal.text, later)
            return False
        except Refusal as refusal:
            if isinstance(refusal, ProviderUnavailable) and _is_recent(batch):
                raise
            await self._refuse(batch, row, refusal.text)
        else:
            await transitions.decide(self._db, batch, row.number, RowState.PAID, trx_id=trx_id)
        return True

    async def _decide_known(self, batch: Batch, row: BatchRow, trx_id: str) -> None:
        """Handles a row whose reference is already used.

        A reference that we generated belongs to this row. A reference from the file may belong to
        any payout.
        """
        if row.ref_trx.startswith(batch.id):
            await transitions.decide(self._db, batch, row.number, RowState.PAID, trx_id=trx_id)
        else:
            await self._refuse(batch, row, f"{drafts.USED_BEFORE} It is {trx_id}.")

    async def _refuse(self, batch: Batch, row: BatchRow, remark: str) -> None:
        await transitions.decide(self._db, batch, row.number, RowState.REFUSED, remark=remark)


def _is_recent(batch: Batch) -> bool:
    """Whether the file was confirmed so recently that its rows should still be retried."""
    assert batch.confirmed_at is not None
    return datetime.now(UTC) - batch.confirmed_at < PROVIDER_PATIENCE


def _order(batch: Batch, row: BatchRow, method: Method) -> PayoutOrder:
    return PayoutOrder(
        payout_amount=Money(batch.currency, row.amount_minor).amount,
        currency_code=batch.currency,
        ref_trx=row.ref_trx,
        ipn_url=batch.ipn_url,
        withdraw_method_id=batch.method_id,
        beneficiary=checks.beneficiary_of(row, method),
        description=row.description or None,
        purpose=row.purpose,
        repeat_key=RepeatKey.of(batches.PAY, f"{batch.id}:{row.number}", batches.fingerprint(row)),
        ordered_by=batch.ordered_by,
        batch_id=batch.id,
        batch_row=row.number,
        expected_name=row.resolved_name,
    )


async def _mail_result(connection: Connection, batch: Batch) -> None:
    if batch.environment is Environment.SANDBOX:
        return
    facts = {
        "file": batch.file_name,
        "created": str(batch.paid),
        "failed": str(batch.refused + batch.faulty),
        "total": money(batch.total),
    }
    merchant_id = batch.merchant_id
    await outbox.put(
        connection, MailKind.BULK_DONE, facts, path=batch.path, merchant_id=merchant_id
    )
