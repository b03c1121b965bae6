"""Bulk payouts from a file. A user confirms the file, and another user may have to approve it.

A single payout that needs a second person is a batch with one row.
"""

import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec

from manilla.audit import audit
from manilla.bulk import coverage, store, transitions
from manilla.bulk.store import (
    Batch,
    BatchKind,
    BatchRow,
    BatchStatus,
    NameCheck,
    NewBatchRow,
    RowState,
)
from manilla.job_kinds import JobKind
from manilla.kit import ids, jobs
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import Reads
from manilla.kit.display import money
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.payouts.initiate import PayoutOrder
from manilla.payouts.ordering import PayoutPreview
from manilla.payouts.protection import allowance
from manilla.people import second_person
from manilla.people.second_person import ApprovalRequest, Decider

PAY = JobKind.BULK_PAYOUTS
ROWS_AT_ONCE = 200
ASKED_MAX = 20  # maximum number of approval requests for the same payout reference
NOT_CHOSEN = "Not paid: only the rows above this one were selected."
ALTERED = "Not paid: the rows of this file no longer match what was confirmed."
STOPPED = "Not paid: {} stopped the file."
REFUSED = "Not paid: {} rejected the request."
EXPIRED = "Not paid: nobody approved the request in time."


class BatchNotFound(Refusal):
    status, code = 404, "BATCH_NOT_FOUND"
    message = "There is no such batch."


class NothingToPay(Refusal):
    code = "NOTHING_TO_PAY"
    message = "No row of this file can be paid. Correct the rows first."


class BatchNotCovered(Refusal):
    """The wallet does not cover all requested rows, so none of them is paid."""

    code = "BATCH_NOT_COVERED"
    message = "The wallet does not cover this file."


class BatchChanged(Refusal):
    status, code = 409, "BATCH_CHANGED"
    message = "Somebody has changed the file since you opened this page. Check it again."


class NamesNotChecked(Refusal):
    code = "NAMES_NOT_CHECKED"
    message = "The account names are still being checked. Wait a moment."


class BatchAltered(Refusal):
    status, code = 409, "BATCH_ALTERED"
    message = (
        "The rows no longer match what was confirmed. Nothing was paid: upload the file again."
    )


class BatchNotWaiting(Refusal):
    status, code = 409, "BATCH_NOT_WAITING"
    message = "This request is no longer pending."


class SamePerson(Refusal):
    status, code = 403, "SAME_PERSON"
    message = "You made this request, so another person must approve it."


class AskedTooOften(Refusal):
    status, code = 409, "ASKED_TOO_OFTEN"
    message = "This payout was rejected too often. Use another reference."


class NotStoppable(Refusal):
    status, code = 409, "NOT_STOPPABLE"
    message = "This file is no longer being paid."


async def find(db: Database, tenant: Tenant, batch_id: str) -> Batch:
    batch = await store.batch(db, tenant.merchant_id, batch_id)
    if batch is None or batch.environment != tenant.environment:
        raise BatchNotFound
    return batch


async def confirm(
    db: Database,
    tenant: Tenant,
    batch_id: str,
    *,
    by: Decider,
    only_first: int | None = None,
    revision: int | None = None,
    accepts_names: bool = False,
) -> BatchStatus:
    """Starts paying all rows, or the `only_first` first rows. Repeated calls have no effect.

    Above the merchant's threshold, a second person must approve the file first. `revision` is the
    revision of the rows that the user has seen. `accepts_names` is True if the user has checked the
    names that differ.
    """
    batch = await find(db, tenant, batch_id)
    if not batch.payable:
        raise NothingToPay
    async with db.transaction() as connection:
        available = await coverage.available(connection, batch, lock=True)
        batch = await transitions.lock(connection, batch)
        if batch.status is not BatchStatus.DRAFT:
            return batch.status
        _check_seen(batch, revision, accepts_names=accepts_names)
        rows = batch.ready if only_first is None else min(only_first, batch.ready)
        cost = await _checked_cost(connection, batch, rows, available)
        if rows < batch.ready:
            await transitions.refuse_after_first(connection, batch, rows, NOT_CHOSEN)
        if not await allowance.take(connection, tenant, cost, by.email, f"file:{batch.id}"):
            await _ask(connection, batch, by, cost)
            return BatchStatus.ASKED
        await _start(connection, batch, by, cost, "bulk.confirm", payouts=rows, of=batch.payable)
        return BatchStatus.RUNNING


def _check_seen(batch: Batch, revision: int | None, *, accepts_names: bool) -> None:
    if revision not in (None, batch.revision):
        raise BatchChanged
    if batch.unchecked:
        raise NamesNotChecked
    if batch.differing and not accepts_names:
        raise NamesNotChecked("Confirm that you have checked the names that differ.")


async def _checked_cost(connection: Connection, batch: Batch, rows: int, available: Money) -> Money:
    """Returns the cost of the first rows, which the wallet must cover.

    `available` excludes the remaining cost of other confirmed files. The lock on the wallet
    prevents two files from being confirmed at the same time.
    """
    cost = await coverage.cost_of_first(connection, batch, rows)
    if rows < 1 or available < cost:
        raise BatchNotCovered(f"Nothing was paid. {_what_to_do(available, cost)}")
    return cost


def _what_to_do(available: Money, cost: Money) -> str:
    if cost <= available:
        return "Choose at least one row."
    return f"Top up {money(cost - available)} or remove rows."


async def _start(
    connection: Connection, batch: Batch, by: Decider, cost: Money, action: str, **detail: int
) -> None:
    await transitions.start(connection, batch, by.email)
    await jobs.put(connection, batch.merchant_id, PAY, batch.id)
    rows = await store.PAYOUT_FILES.digest_of(connection, batch.merchant_id, batch.id)
    await _record(connection, batch, action, total=cost, destination=rows, **detail)


async def _ask(connection: Connection, batch: Batch, by: Decider, cost: Money) -> None:
    await second_person.check_has_second(connection, batch.merchant_id, by.person_id)
    await transitions.ask(connection, batch, by.person_id, by.email, second_person.REQUEST_LASTS)
    wait = second_person.REQUEST_LASTS.total_seconds()
    await jobs.put(connection, batch.merchant_id, PAY, batch.id, in_seconds=wait)
    rows = await store.PAYOUT_FILES.digest_of(connection, batch.merchant_id, batch.id)
    await _record(connection, batch, "bulk.ask", total=cost, destination=rows)
    if batch.environment is Environment.PRODUCTION:
        await second_person.mail_team(
            *(connection, batch.merchant_id, by.actor, batch.file_name, batch.path, money(cost))
        )


async def ask_single(
    db: Database, caller: Caller, preview: PayoutPreview, order: PayoutOrder, by: Decider
) -> str:
    """Asks a second person to approve a single payout. Returns the id of the batch.

    A form that is submitted twice creates one request. A payout that was rejected, or that nobody
    approved in time, can be requested again with the same reference.
    """
    for attempt in range(ASKED_MAX):
        batch_id = _single_id(caller, order.ref_trx, attempt)
        found = await store.batch(db, caller.merchant_id, batch_id)
        if found is None:
            async with db.transaction() as connection:
                await ask_in(connection, caller, preview, order, by, batch_id)
            return batch_id
        if found.status is BatchStatus.ASKED and found.is_expired:
            await expire(db, found)
        elif found.paid or found.status in (BatchStatus.ASKED, BatchStatus.RUNNING):
            return batch_id
    raise AskedTooOften


def _single_id(caller: Caller, ref_trx: str, attempt: int) -> str:
    """Returns a batch id that is derived from the reference and the number of the attempt."""
    key = f"{caller.merchant_id}:{caller.environment}:{ref_trx}" + f":{attempt}" * bool(attempt)
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:7])
    return f"ASK-{ids.base32(number, 12)}"


async def ask_in(
    connection: Connection,
    caller: Caller,
    preview: PayoutPreview,
    order: PayoutOrder,
    by: Decider,
    batch_id: str,
) -> None:
    """Asks a second person to approve a payout, unless a batch with this id exists."""
    batch = _single(caller, preview, order, by, batch_id)
    if await store.insert(connection, batch, [_single_row(preview, order)]):
        await _ask(connection, batch, by, preview.total)


def _single(
    caller: Caller, preview: PayoutPreview, order: PayoutOrder, by: Decider, batch_id: str
) -> Batch:
    return Batch(
        merchant_id=caller.merchant_id,
        id=batch_id,
        environment=caller.environment,
        status=BatchStatus.DRAFT,
        method_id=preview.method.id,
        method_name=preview.method.name,
        currency=preview.amount.currency,
        file_name=f"Payout {order.ref_trx}",
        uploaded_by=by.email,
        created_at=datetime.now(UTC),
        kind=BatchKind.SINGLE,
        ipn_url=order.ipn_url,
    )


def _single_row(preview: PayoutPreview, order: PayoutOrder) -> NewBatchRow:
    who, name = preview.holder.who, preview.holder.account_name
    return NewBatchRow(
        number=1,
        state=RowState.READY,
        amount_text=f"{preview.amount.amount:f}",
        amount_minor=preview.amount.minor,
        fee_minor=preview.fee.minor,
        tax_minor=preview.tax.minor,
        purpose=order.purpose,
        bank_code=who.bank,
        account_number=who.number,
        name="",
        ref_trx=order.ref_trx,
        description=order.description or "",
        remark=None,
        resolved_name=name,
        name_check=NameCheck.NONE if name is None else NameCheck.AGREES,
    )


async def approve(db: Database, tenant: Tenant, batch_id: str, *, by: Decider) -> None:
    """Starts paying a batch that another person has requested. The wallet is checked again."""
    batch = await find(db, tenant, batch_id)
    async with db.transaction() as connection:
        available = await coverage.available(connection, batch, lock=True)
        batch = await transitions.lock(connection, batch)
        await second_person.check_approval(connection, _request(batch), by.actor)
        if not await is_as_confirmed(connection, batch):
            raise BatchAltered
        cost = await _checked_cost(connection, batch, batch.ready, available)
        await _start(connection, batch, by, cost, "bulk.approve", payouts=batch.ready)


async def is_as_confirmed(db: Database | Connection, batch: Batch) -> bool:
    """Returns False if rows were changed in the database after a user has confirmed them."""
    return await store.PAYOUT_FILES.check(db, batch.merchant_id, batch.id)


async def reject_altered(db: Database, batch: Batch) -> None:
    """Rejects the rows without a payout, because they no longer match what was confirmed."""
    async with db.transaction() as connection:
        await coverage.available(connection, batch, lock=True)
        batch = await transitions.lock(connection, batch)
        await transitions.refuse_ready(connection, batch, ALTERED)
        await _record(connection, batch, "bulk.altered", paid=batch.paid, refused=batch.ready)


async def check_approval(db: Database, batch: Batch, by: Decider) -> None:
    """Raises an error if this person cannot approve the batch now."""
    await second_person.check_approval(db, _request(batch), by.actor)


async def refuse(db: Database, tenant: Tenant, batch_id: str, *, by: Decider) -> None:
    """Rejects a pending request. The requester can also reject the request, to withdraw it."""
    batch = await find(db, tenant, batch_id)
    async with db.transaction() as connection:
        batch = await transitions.lock(connection, batch)
        second_person.check_pending(_request(batch))
        await transitions.refuse(connection, batch, by.email, REFUSED.format(by.email))
        await _record(connection, batch, "bulk.refuse")


async def expire(db: Database, batch: Batch) -> float | None:
    """Ends a batch that nobody has approved in time.

    Returns the seconds until a batch that is still waiting expires. A job can run earlier than the
    batch expires, for example if the worker's clock is behind the database's clock.
    """
    async with db.transaction() as connection:
        batch = await transitions.lock(connection, batch)
        if batch.status is not BatchStatus.ASKED:
            return None
        if not batch.is_expired:
            assert batch.expires_at is not None
            return max((batch.expires_at - datetime.now(UTC)).total_seconds(), 0)
        await transitions.refuse(connection, batch, None, EXPIRED)
        await _record(connection, batch, "bulk.expire")
    return None


def _request(batch: Batch) -> ApprovalRequest:
    is_production = batch.environment is Environment.PRODUCTION
    return ApprovalRequest(
        asked_by=Decider(batch.asked_by_id or 0, batch.asked_by or "").actor,
        is_pending=batch.status is BatchStatus.ASKED and not batch.is_expired,
        has_ended=BatchNotWaiting(),
        is_own=SamePerson(),
        team=batch.merchant_id if is_production else None,
    )


async def stop(db: Database, tenant: Tenant, batch_id: str, *, by: Decider) -> None:
    """Stops a file that is being paid.

    Rows without a payout are rejected here. A worker then cancels the payouts that have not been
    sent to a provider yet, and refunds them. Payouts are created under the lock on the wallet, so
    no row can be paid after it was rejected here.
    """
    batch = await find(db, tenant, batch_id)
    async with db.transaction() as connection:
        await coverage.available(connection, batch, lock=True)
        batch = await transitions.lock(connection, batch)
        if batch.stopped_at is not None:
            return
        if not await _can_stop(connection, batch):
            raise NotStoppable
        await transitions.stop(connection, batch, by.email, STOPPED.format(by.email))
        await jobs.put(connection, batch.merchant_id, PAY, batch.id)
        await _record(connection, batch, "bulk.stop", paid=batch.paid, refused=batch.ready)


async def _can_stop(connection: Connection, batch: Batch) -> bool:
    if batch.status is BatchStatus.DONE:
        return bool(await store.unsent(connection, batch, 1))
    return batch.status is BatchStatus.RUNNING


async def _record(
    connection: Connection, batch: Batch, action: str, **detail: Money | int | str
) -> None:
    await audit.record(
        connection,
        action,
        f"batch:{batch.id}",
        merchant_id=batch.merchant_id,
        environment=batch.environment,
        **detail,
    )


async def all_rows(
    db: Reads, batch: Batch, state: RowState | None = None
) -> AsyncIterator[list[BatchRow]]:
    after = 0
    while found := await store.rows(
        db, batch.merchant_id, batch.id, state=state, after=after, limit=ROWS_AT_ONCE
    ):
        yield found
        after = found[-1].number


def fingerprint(row: BatchRow) -> bytes:
    """Returns the encoded request fields of the row, without its result."""
    return msgspec.json.encode(
        [row.amount_minor, row.bank_code, row.account_number, row.name, row.ref_trx]
    )
