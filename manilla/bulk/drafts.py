"""Drafts of bulk payouts: checks an uploaded file, and saves corrections to its rows."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec

from manilla.audit import audit
from manilla.bulk import checks, file, names, store, transitions
from manilla.bulk.checks import SAME_REFERENCE, CheckedRow, RowChecks, purpose_of
from manilla.bulk.file import BadFile, FileRow
from manilla.bulk.store import (
    Batch,
    BatchRow,
    BatchStatus,
    NameCheck,
    NewBatchRow,
    RowState,
)
from manilla.kit import ids, jobs
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.isolation.calls import IsolatedCalls
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.methods.method import Method
from manilla.payouts.ordering import PayoutPreviews

NAMES = names.CHECK
FILE_NAME_LENGTH_MAX = 100
ROWS_AT_ONCE = 200  # number of rows to process before the event loop serves other requests
USED_BEFORE = "A payout with this reference already exists."
KEPT_FAULTS = ("reference", file.WHOLE_ROW)  # errors that a corrected account number does not fix
BANKS_DIFFER = "The bank code and the bank name belong to different banks."

_parse = IsolatedCalls(
    "manilla.bulk.file:read",
    list[FileRow],
    refusal=BadFile,
    too_long="The file takes too long to read. Save it again with only the payouts.",
)


class DraftClosed(Refusal):
    status, code = 409, "DRAFT_CLOSED"
    message = "This file was confirmed in the meantime. Its rows can no longer be changed."


class RowNotFound(Refusal):
    status, code = 404, "ROW_NOT_FOUND"
    message = "This row was removed in the meantime."


class Drafting(msgspec.Struct, frozen=True):
    """What is needed to check the rows of a merchant's payout file."""

    db: Database
    previews: PayoutPreviews
    caller: Caller
    method: Method

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.caller.merchant_id, self.caller.environment)

    async def check(self, rows: Sequence[FileRow]) -> list[CheckedRow]:
        known = await self.previews.banks(self.caller, self.method)
        row_checks = RowChecks(
            self.method, known, partial(self.previews.price, self.caller, self.method)
        )
        codes = {text: await self._own_code(text) for text in _bank_texts(rows)}
        checked = []
        for number, row in enumerate(rows):
            checked.append(row_checks.check(self._understood(row, codes)))
            if number % ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return checked

    async def _own_code(self, text: str) -> str:
        return await self.previews.own_bank_code(self.caller, self.method, text)

    def _understood(self, row: FileRow, codes: dict[str, str]) -> FileRow:
        """Returns the row with the provider's own bank code."""
        faults = dict(row.faults)
        code = codes.get(row.bank_code or row.bank_name, "")
        if row.bank_code and row.bank_name and codes[row.bank_name] != code:
            faults.setdefault("bank_code", BANKS_DIFFER)
        if not self.method.is_manual and code and (doubt := self.previews.bank_doubt(code)):
            faults.setdefault("bank_code", doubt)
        return msgspec.structs.replace(row, bank_code=code, faults=faults)


def _bank_texts(rows: Sequence[FileRow]) -> set[str]:
    return {text for row in rows for text in (row.bank_code, row.bank_name) if text}


async def draft(drafting: Drafting, *, file_name: str, raw: bytes, uploaded_by: str) -> str:
    """Checks a payout file and stores it as a draft, without paying any row."""
    rows = await _parse.run(raw)
    checked = _without_repeats(await drafting.check(rows))
    references = [each.row.reference for each in checked if each.row.reference]
    used = await store.used_references(drafting.db, drafting.tenant, references)
    caller, method = drafting.caller, drafting.method
    batch = Batch(
        merchant_id=caller.merchant_id,
        id=f"BULK-{ids.base32(secrets.randbits(60), 12)}",
        environment=caller.environment,
        status=BatchStatus.DRAFT,
        method_id=method.id,
        method_name=method.name,
        currency=method.currency,
        file_name=_plain(file_name),
        uploaded_by=uploaded_by,
        created_at=datetime.now(UTC),
    )
    stored = [_row(batch.id, drafting, _unless_used(each, used)) for each in checked]
    if caller.is_sandbox:  # no provider is called in the sandbox
        stored = [
            await names.resolve_name(drafting.previews, caller, method, row) for row in stored
        ]
    async with drafting.db.transaction() as connection:
        await store.insert(connection, batch, stored)
        await jobs.put(connection, batch.merchant_id, NAMES, batch.id)
    return batch.id


def _without_repeats(checked: Sequence[CheckedRow]) -> list[CheckedRow]:
    """Adds an error to each row that has the same reference as an earlier valid row."""
    seen: Counter[str] = Counter()
    result = []
    for each in checked:
        reference = each.row.reference
        result.append(_with_fault(each, SAME_REFERENCE) if seen[reference] else each)
        seen[reference] += bool(reference and not each.faults)
    return result


def _unless_used(checked: CheckedRow, used: set[str]) -> CheckedRow:
    return _with_fault(checked, USED_BEFORE) if checked.row.reference in used else checked


def _with_fault(checked: CheckedRow, text: str) -> CheckedRow:
    return msgspec.structs.replace(checked, faults={**checked.faults, "reference": text})


def _plain(file_name: str) -> str:
    name = "".join(character for character in file_name if character.isprintable())
    return name[:FILE_NAME_LENGTH_MAX] or "payouts.csv"


def _row(batch_id: str, drafting: Drafting, checked: CheckedRow) -> NewBatchRow:
    row = checked.row
    is_unnamed = drafting.method.is_manual or bool(checked.faults)
    return NewBatchRow(
        number=row.number,
        state=RowState.FAULTY if checked.faults else RowState.READY,
        amount_text=row.amount,
        amount_minor=checked.amount.minor,
        fee_minor=checked.price.fee.minor,
        tax_minor=checked.price.tax_minor,
        purpose=purpose_of(row),
        bank_code=row.bank_code,
        account_number=row.account_number,
        name=row.name,
        ref_trx=row.reference or own_reference(batch_id, row.number),
        description=row.description,
        remark=checked.error or checked.warning,
        faults=checked.faults,
        name_check=NameCheck.NONE if is_unnamed else NameCheck.WAITING,
    )


def own_reference(batch_id: str, number: int) -> str:
    """Returns the reference that we generate for a row without a reference."""
    return f"{batch_id}-{number:04d}"


async def correct(
    drafting: Drafting, batch: Batch, wanted: Sequence[FileRow], removed: Sequence[int] = ()
) -> int:
    """Saves corrected rows with their remaining errors, and deletes the `removed` rows.

    Returns the number of corrected rows that no longer have an error.
    """
    checked = _without_repeats(await drafting.check(wanted))
    async with drafting.db.transaction() as connection:
        await _locked(connection, batch)
        await store.delete_rows(connection, batch, removed)
        for each in wanted:
            if await store.row(connection, batch, each.number) is None:
                raise RowNotFound
        numbers = [each.number for each in wanted]
        checked = [
            await _with_reference_faults(connection, drafting, batch, each, numbers)
            for each in checked
        ]
        saved = await _save(connection, drafting, batch, checked)
        counts = {"rows": len(wanted), "removed": len(removed)}
        await _record(connection, batch, "bulk.correct_rows", **counts)
    return sum(row.state is RowState.READY for row in saved)


async def _save(
    connection: Connection, drafting: Drafting, batch: Batch, checked: Sequence[CheckedRow]
) -> list[NewBatchRow]:
    rows = [_row(batch.id, drafting, each) for each in checked]
    if drafting.caller.is_sandbox:
        shown = drafting.previews, drafting.caller, drafting.method
        rows = [await names.resolve_name(*shown, row) for row in rows]
    await store.replace_rows(connection, batch, rows)
    await store.raise_revision(connection, batch)
    await jobs.put(connection, batch.merchant_id, NAMES, batch.id)
    return rows


async def _with_reference_faults(
    connection: Connection,
    drafting: Drafting,
    batch: Batch,
    checked: CheckedRow,
    replaced: Sequence[int],
) -> CheckedRow:
    """Adds an error if a payout, or a row that is not `replaced`, already has the reference."""
    reference = checked.row.reference
    if not reference or "reference" in checked.faults:
        return checked
    if await store.has_other_row(connection, batch, replaced, reference):
        return _with_fault(checked, SAME_REFERENCE)
    return _unless_used(
        checked, await store.used_references(connection, drafting.tenant, [reference])
    )


async def add_zeros(drafting: Drafting, batch: Batch) -> int:
    """Adds the zeros that a spreadsheet has dropped from account numbers.

    A user must start this, because the missing digits may not be zeros. The account names are
    checked afterwards. Returns the number of changed rows.
    """
    async with drafting.db.transaction() as connection:
        await _locked(connection, batch)
        key = batch.merchant_id, batch.id
        faulty = await store.rows(connection, *key, state=RowState.FAULTY, limit=file.ROWS_MAX)
        short = [
            msgspec.structs.replace(
                file_row(batch, row),
                account_number=checks.with_zeros(row.account_number),
                faults={name: row.faults[name] for name in KEPT_FAULTS if name in row.faults},
            )
            for row in faulty
            if checks.is_short(row.account_number)
        ]
        await _save(connection, drafting, batch, await drafting.check(short))
        await _record(connection, batch, "bulk.add_zeros", rows=len(short))
    return len(short)


def file_row(batch: Batch, row: BatchRow) -> FileRow:
    """Returns the row as it was in the file."""
    is_own = row.ref_trx == own_reference(batch.id, row.number)
    return FileRow(
        number=row.number,
        amount=row.amount_text,
        bank_code=row.bank_code,
        account_number=row.account_number,
        name=row.name,
        reference="" if is_own else row.ref_trx,
        description=row.description,
    )


async def _locked(connection: Connection, batch: Batch) -> None:
    if (await transitions.lock(connection, batch)).status is not BatchStatus.DRAFT:
        raise DraftClosed


async def _record(connection: Connection, batch: Batch, action: str, **detail: int) -> None:
    await audit.record(
        connection,
        action,
        f"batch:{batch.id}",
        merchant_id=batch.merchant_id,
        environment=batch.environment,
        **detail,
    )
