"""Bulk payouts from a file: checked first, confirmed by a user, then paid row by row."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec

from manilla.audit import audit
from manilla.kit import ids, jobs
from manilla.kit.db import Database
from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger.job_kinds import JobKind
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.methods.method import Method
from manilla.payouts.bulk import checks, file, store
from manilla.payouts.bulk.checks import CheckedRow
from manilla.payouts.bulk.file import FileRow
from manilla.payouts.bulk.store import Batch, BatchRow, BatchStatus, NewBatchRow, RowState
from manilla.payouts.ordering import PayoutPreviews

PAY = JobKind.BULK_PAYOUTS
FILE_NAME_LENGTH_MAX = 100
ROWS_AT_ONCE = 200
NOT_CHOSEN = "Not paid: only the rows above this one were selected."
USED_BEFORE = "A payout with this reference already exists."


class BatchNotFound(Refusal):
    status, code = 404, "BATCH_NOT_FOUND"
    message = "There is no such batch."


class NothingToPay(Refusal):
    code = "NOTHING_TO_PAY"
    message = "No row of this file can be paid. Correct the file and upload it again."


class BatchNotCovered(Refusal):
    """The wallet does not cover all requested rows, so none of them is paid."""

    code = "BATCH_NOT_COVERED"
    message = "The wallet does not cover this file."


class BatchCoverage(msgspec.Struct, frozen=True):
    """How much of a file the wallet covers, in file order."""

    available: Money  # the wallet's balance minus what other confirmed files will still cost
    total: Money
    affordable_rows: int
    affordable_cost: Money

    @property
    def is_whole(self) -> bool:
        return self.total <= self.available

    @property
    def missing(self) -> Money:
        return self.total - self.available


async def draft(
    db: Database,
    previews: PayoutPreviews,
    caller: Caller,
    method: Method,
    *,
    file_name: str,
    raw: bytes,
    uploaded_by: str,
) -> str:
    """Checks a file and stores it as a draft. Pays nothing."""
    banks = await previews.banks(caller, method)
    rows = [await _understood(previews, caller, method, row) for row in file.read(raw)]
    checked = checks.check(rows, method, banks)
    tenant = Tenant(caller.merchant_id, caller.environment)
    references = [each.row.reference for each in checked if each.row.reference]
    used = await store.used_references(db, tenant, references)
    batch_id = f"BULK-{ids.base32(secrets.randbits(60), 12)}"
    batch = Batch(
        merchant_id=caller.merchant_id,
        id=batch_id,
        environment=caller.environment,
        status=BatchStatus.DRAFT,
        method_id=method.id,
        method_name=method.name,
        currency=method.currency,
        file_name=_plain(file_name),
        uploaded_by=uploaded_by,
        created_at=datetime.now(UTC),
    )
    async with db.transaction() as connection:
        await store.insert(connection, batch, [_row(batch_id, each, used) for each in checked])
    return batch_id


async def _understood(
    previews: PayoutPreviews, caller: Caller, method: Method, row: FileRow
) -> FileRow:
    """Returns the row with the provider's own code of the bank."""
    code = await previews.own_bank_code(caller, method, row.bank_code)
    return row if code == row.bank_code else msgspec.structs.replace(row, bank_code=code)


def _plain(file_name: str) -> str:
    name = "".join(character for character in file_name if character.isprintable())
    return name[:FILE_NAME_LENGTH_MAX] or "payouts.csv"


def _row(batch_id: str, checked: CheckedRow, used: set[str]) -> NewBatchRow:
    row = checked.row
    error = checked.error or (USED_BEFORE if row.reference in used else None)
    return NewBatchRow(
        number=row.number,
        state=RowState.FAULTY if error else RowState.READY,
        amount_text=row.amount,
        amount_minor=checked.amount.minor,
        fee_minor=checked.fee.minor,
        bank_code=row.bank_code,
        account_number=row.account_number,
        name=row.name,
        ref_trx=row.reference or f"{batch_id}-{row.number:04d}",
        description=row.description,
        remark=error or checked.warning,
    )


async def find(db: Database, tenant: Tenant, batch_id: str) -> Batch:
    batch = await store.batch(db, tenant.merchant_id, batch_id)
    if batch is None or batch.environment != tenant.environment:
        raise BatchNotFound
    return batch


async def confirm(
    db: Database, tenant: Tenant, batch_id: str, *, by: str, only_first: int | None = None
) -> None:
    """Starts paying all rows, or the `only_first` first rows. Repeated calls have no effect.

    The wallet must cover the cost in addition to what other confirmed files will still cost. The
    lock on the wallet prevents two files from being confirmed at the same time.
    """
    batch = await find(db, tenant, batch_id)
    if not batch.payable:
        raise NothingToPay
    async with db.transaction() as connection:
        available = await store.available(connection, batch, lock=True)
        if not await store.start(connection, batch, by):
            return
        rows = batch.ready if only_first is None else min(only_first, batch.ready)
        cost = await store.cost_of_first(connection, batch, rows)
        if rows < 1 or available < cost:
            raise BatchNotCovered(f"Nothing was paid. {_what_to_do(available, cost)}")
        if rows < batch.ready:
            await store.refuse_after_first(connection, batch, rows, NOT_CHOSEN)
        await jobs.put(connection, batch.merchant_id, PAY, batch.id)
        await audit.record(
            connection,
            "bulk.confirm",
            f"batch:{batch.id}",
            merchant_id=batch.merchant_id,
            environment=batch.environment,
            payouts=rows,
            of=batch.payable,
            total=cost,
        )


async def coverage(db: Database, batch: Batch) -> BatchCoverage:
    """Returns the wallet's current coverage; `confirm` checks it again under a lock."""
    available = await store.available(db, batch)
    rows, cost = await store.affordable(db, batch, available)
    total = await store.cost_of_first(db, batch, batch.ready)
    return BatchCoverage(available, total, rows, cost)


def _what_to_do(available: Money, cost: Money) -> str:
    if cost <= available:
        return "Choose at least one row."
    return f"Top up {money(cost - available)} or remove rows."


async def all_rows(
    db: Database, batch: Batch, state: RowState | None = None
) -> AsyncIterator[list[BatchRow]]:
    after = 0
    while found := await store.rows(
        db, batch.merchant_id, batch.id, state=state, after=after, limit=ROWS_AT_ONCE
    ):
        yield found
        after = found[-1].number


def fingerprint(row: BatchRow) -> bytes:
    """Returns the request fields of the row, without its outcome."""
    return msgspec.json.encode(
        [row.amount_minor, row.bank_code, row.account_number, row.name, row.ref_trx]
    )
