"""Compares the account names in a payout file with the banks' names, before anything is paid."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec

from manilla.beneficiaries import beneficiary, sandbox
from manilla.bulk import checks, store
from manilla.bulk.store import BatchRow, BatchStatus, NameCheck, NewBatchRow, RowState
from manilla.job_kinds import JobKind
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job, Work
from manilla.merchants.directory import Caller, Directory
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts.ordering import PayoutPreviews
from manilla.transfers.refusals import PROVIDER_RETRY_SECONDS, ProviderUnavailable, UnknownBank

CHECK = JobKind.BULK_NAMES
CONCURRENCY = 2  # number of payout files that are checked at the same time
# Limits a file's account lookups per second, so that the provider still has capacity for payouts.
LOOKUPS_AT_ONCE, STEP_SECONDS = 10, 1
PROVIDER_PATIENCE = timedelta(hours=1)  # how long to retry while a provider is unavailable
NOT_ANSWERED = "The provider did not respond. Save the row to check the account again."


class NameTasks:
    def __init__(
        self, db: Database, directory: Directory, catalogue: Catalogue, previews: PayoutPreviews
    ) -> None:
        self._db = db
        self._directory = directory
        self._catalogue = catalogue
        self._previews = previews

    def job_handlers(self) -> dict[str, Work]:
        return {CHECK: Work(self.advance, concurrency=CONCURRENCY, is_fair=True)}

    async def advance(self, job: Job) -> float | None:
        batch = await store.batch(self._db, job.merchant_id, job.subject)
        if batch is None or batch.status is not BatchStatus.DRAFT or not batch.unchecked:
            return None
        method = self._catalogue.by_id(MethodKind.WITHDRAW, batch.method_id)
        if method is None:
            return None
        rows = await store.rows(
            *(self._db, batch.merchant_id, batch.id),
            name_check=NameCheck.WAITING,
            limit=LOOKUPS_AT_ONCE,
        )
        caller = await self._directory.of(batch.environment, batch.merchant_id)
        is_patient = datetime.now(UTC) - batch.created_at < PROVIDER_PATIENCE
        found = await asyncio.gather(
            *(self._look(caller, method, row, is_patient=is_patient) for row in rows)
        )
        known = [each for each in found if each is not None]
        await store.save_names(self._db, batch, known)
        return STEP_SECONDS if len(known) == len(rows) else PROVIDER_RETRY_SECONDS

    async def _look(
        self, caller: Caller, method: Method, row: BatchRow, *, is_patient: bool
    ) -> NewBatchRow | None:
        """Returns the row with the account name, or None if the provider does not respond."""
        try:
            return await resolve_name(self._previews, caller, method, row)
        except ProviderUnavailable:
            return None if is_patient else _with_fault(row, "account_number", NOT_ANSWERED)


async def resolve_name(
    previews: PayoutPreviews, caller: Caller, method: Method, row: NewBatchRow
) -> NewBatchRow:
    """Returns the row with the bank's account name, or with the error that prevents the payout.

    The sandbox has no real names, so only one test account has a differing name there.
    """
    if row.name_check is not NameCheck.WAITING:
        return row
    try:
        given = checks.beneficiary_of(row, method)
        name = await previews.account_name(caller, method, given)
    except ProviderUnavailable:
        raise
    except Refusal as refusal:
        column = "bank_code" if isinstance(refusal, UnknownBank) else "account_number"
        return _with_fault(row, column, refusal.text)
    is_same = not row.name or beneficiary.names_agree(row.name, name)
    if caller.is_sandbox:
        is_same = row.account_number != sandbox.OTHER_NAME
    check = NameCheck.AGREES if is_same else NameCheck.DIFFERS
    return msgspec.structs.replace(row, resolved_name=name, name_check=check)


def _with_fault(row: NewBatchRow, column: str, text: str) -> NewBatchRow:
    return msgspec.structs.replace(
        row,
        state=RowState.FAULTY,
        faults={column: text},
        remark=text,
        name_check=NameCheck.NONE,
    )
