"""The page of a batch: one payout file, or a single payout that needs a second person's approval.

On this page users correct rows, confirm or approve the batch, follow its progress, and stop it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from manilla.banks.nigeria import with_code
from manilla.bulk import batches, coverage, drafts, store
from manilla.bulk.checks import is_short
from manilla.bulk.drafts import Drafting
from manilla.bulk.file import COLUMNS as FILE_COLUMNS
from manilla.bulk.file import FileRow
from manilla.bulk.store import Batch, BatchKind, BatchRow, BatchStatus, NameCheck, RowState
from manilla.kit.amount_input import parse_amount
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.fields import insert_after
from manilla.kit.money import Money, MoneyError
from manilla.methods.method import MethodKind
from manilla.payouts.protection import allowance
from manilla.people import second_person
from manilla.web import exports, lists
from manilla.web.page_request import NO_STORE, PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

ROWS = 100
CORRECTED_AT_ONCE = 20  # the maximum number of rows in the correction form
DIFFERS = NameCheck.DIFFERS.value  # selects rows whose account name differs from the bank's
TEXT_LENGTH_MAX = 300

COLUMNS = store.ROW_FIELDS.select(
    "row result remark trx_id payout_status amount bank_code account_number name reference"
    " description resolved_name name_check"
)
DONE = {
    BatchStatus.RUNNING: "Payment started.",
    BatchStatus.ASKED: "Another person must approve the payment.",
}


async def show(request: PageRequest) -> PageResponse:
    batch = await _batch(request)
    if exports.is_wanted(request):
        pages = batches.all_rows(request.reads, batch, _state(request))
        columns = insert_after(COLUMNS, "bank_code", "bank_name", _bank_name(request, batch))
        return exports.send(request, batch.id, columns, pages)
    return request.page("batch.html", **await _draft(request, batch), **await _rows(request, batch))


async def _draft(request: PageRequest, batch: Batch) -> dict[str, Any]:
    """Returns the template values for a batch that is a draft or needs approval."""
    shown: dict[str, Any] = {"coverage": None, "failing": [], "corrections": [], "short": 0}
    shown["needs_second"] = False
    shown["approvers"], shown["waits_until"] = [], None
    if batch.status not in (BatchStatus.DRAFT, BatchStatus.ASKED):
        return shown
    if batch.ready:
        shown["coverage"] = await coverage.coverage(request.db, batch)
        shown["needs_second"] = await allowance.is_exceeded(
            request.db, request.tenant, shown["coverage"].total, request.visitor.email
        )
        shown["failing"] = await _failing(request, batch)
    if batch.status is BatchStatus.ASKED:
        shown.update(await _approval(request, batch))
    if batch.status is BatchStatus.DRAFT:
        faulty = await _some(request, batch, state=RowState.FAULTY)
        shown["short"] = sum(is_short(row.account_number) for row in faulty)
        edited = await _edited(request, batch)
        shown["corrections"] = [
            (row, drafts.file_row(batch, row)) for row in ([edited] if edited else []) + faulty
        ]
    return shown


async def _approval(request: PageRequest, batch: Batch) -> dict[str, Any]:
    """Returns who can approve the batch, and from when."""
    approvers = await second_person.approvers(
        request.db, batch.merchant_id, batch.environment, batch.asked_by_id
    )
    me = (each for each in approvers if each.person_id == request.visitor.person_id)
    return {
        "approvers": approvers,
        "waits_until": next((each.waits_until for each in me), None),
    }


async def _some(request: PageRequest, batch: Batch, **wanted: Any) -> list[BatchRow]:
    key = batch.merchant_id, batch.id
    return await store.rows(request.db, *key, **wanted, limit=CORRECTED_AT_ONCE)


async def _edited(request: PageRequest, batch: Batch) -> BatchRow | None:
    """Returns the valid row that the user wants to edit, or None."""
    if not request.query.text("edit"):
        return None
    row = await store.row(request.db, batch, request.query.integer("edit"))
    return row if row is not None and row.state is RowState.READY else None


async def _failing(request: PageRequest, batch: Batch) -> list[str]:
    """Returns those banks in the payout file to which transfers are currently failing."""
    method = request.services.methods.by_id(MethodKind.WITHDRAW, batch.method_id)
    if method is None:
        return []
    codes = await store.bank_codes(request.db, batch)
    return await request.services.previews.failing(await request.caller(), method, codes)


async def show_progress(request: PageRequest) -> PageResponse:
    """Renders the batch's progress. Returns 204 if the progress has not changed."""
    batch = await _batch(request)
    about = await _rows(request, batch)
    known = request.query.text(lists.KNOWN)
    if known == about["known"]:
        return PageResponse.empty(204, headers=NO_STORE)
    if known.startswith(f"{BatchStatus.DRAFT}-") and not batch.unchecked:
        # All account names have been checked, so the browser must reload the whole page.
        return PageResponse.empty(204, headers={**NO_STORE, "HX-Refresh": "true"})
    return request.page("batch_progress.html", **about)


async def _rows(request: PageRequest, batch: Batch) -> dict[str, Any]:
    after = request.query.integer(lists.AFTER) if lists.AFTER in request.query else 0
    differs = request.query.text("state") == DIFFERS
    rows = await store.rows(
        *(request.db, batch.merchant_id, batch.id),
        state=None if differs else _state(request),
        name_check=NameCheck.DIFFERS if differs else None,
        after=after,
        limit=ROWS + 1,
    )
    following = str(rows[ROWS - 1].number) if len(rows) > ROWS else None
    outcomes = await store.outcomes(request.db, batch.merchant_id, batch.id)
    name_of = _bank_name(request, batch)
    return {
        "batch": batch,
        "outcomes": outcomes,
        "rows": rows[:ROWS],
        "bank_of": lambda row: with_code(name_of(row), row.bank_code),
        "amount_of": partial(_amount, currency=batch.currency),
        "is_mine": batch.asked_by_id == request.visitor.person_id,
        "single": rows[0] if batch.kind is BatchKind.SINGLE and rows else None,
        "listing": lists.ListView(request, following, request.at(f"~/payouts/bulk/{batch.id}")),
        "known": f"{batch.status}-{batch.decided + batch.unchecked}-{outcomes.final}",
    }


def _amount(row: BatchRow, *, currency: str) -> str:
    """Returns the row's amount, or the text in the file if it is not an amount."""
    if row.state is not RowState.FAULTY:
        return str(Money(currency, row.amount_minor))
    try:
        return str(parse_amount(row.amount_text, currency))
    except MoneyError:
        return row.amount_text


def _bank_name(request: PageRequest, batch: Batch) -> Callable[[BatchRow], str | None]:
    """Returns a function that maps a row to its bank's name, or to None for an unknown bank."""
    method = request.services.methods.by_id(MethodKind.WITHDRAW, batch.method_id)
    provider, banks = None if method is None else method.provider, request.services.banks
    is_sandbox = batch.environment is Environment.SANDBOX

    def name(row: BatchRow) -> str | None:
        if row.state is RowState.FAULTY:
            return None
        return banks.name_at(provider, row.bank_code, is_sandbox=is_sandbox)

    return name


async def correct(request: PageRequest) -> PageResponse:
    """Saves corrected rows and removes selected rows. Reports how many rows still have errors."""
    batch = await _batch(request)
    try:
        removed = [
            number for number in _numbers(request) if request.form.is_checked(f"{number}.remove")
        ]
        wanted = [
            row
            for number in _numbers(request)
            if number not in removed and (row := await _changed(request, batch, number))
        ]
        good = await drafts.correct(await _drafting(request, batch), batch, wanted, removed)
    except Refusal as refusal:
        return _back(request, batch, failed=refusal.text)
    faulty, done = len(wanted) - good, _saved(len(wanted), len(removed))
    if faulty == 0:
        return _back(request, batch, done=done)
    left = "1 row still has an error." if faulty == 1 else f"{faulty} rows still have errors."
    return _back(request, batch, failed=f"{done} {left}")


def _numbers(request: PageRequest) -> list[int]:
    """Returns the numbers of the rows that the form contains."""
    given = request.form.all("row")[: CORRECTED_AT_ONCE + 1]
    return sorted({int(text) for text in given if text.isascii() and text.isdigit()})


async def _changed(request: PageRequest, batch: Batch, number: int) -> FileRow | None:
    """Returns a row with the form's values, or None if the user has not changed the row."""
    form: dict[str, Any] = {
        name: request.form.text(f"{number}.{name}", at_most=TEXT_LENGTH_MAX)
        for name in FILE_COLUMNS
    }
    wanted, row = FileRow(number, **form), await store.row(request.db, batch, number)
    return None if row is not None and drafts.file_row(batch, row) == wanted else wanted


def _saved(saved: int, removed: int) -> str:
    texts = [
        f"{count} row{'' if count == 1 else 's'} {verb}."
        for count, verb in ((saved, "saved"), (removed, "removed"))
        if count
    ]
    return " ".join(texts) or "Nothing was changed."


async def add_zeros(request: PageRequest) -> PageResponse:
    batch = await _batch(request)
    try:
        rows = await drafts.add_zeros(await _drafting(request, batch), batch)
    except Refusal as refusal:
        return _back(request, batch, failed=refusal.text)
    return _back(request, batch, done=f"Zeros added to {rows} account numbers.")


async def _drafting(request: PageRequest, batch: Batch) -> Drafting:
    caller, previews = await request.caller(), request.services.previews
    return Drafting(request.db, previews, caller, previews.method(caller, batch.method_id))


async def confirm(request: PageRequest) -> PageResponse:
    """Confirms the batch. Confirming a batch again has no effect."""
    batch, form = await _batch(request), request.form
    try:
        status = await batches.confirm(
            *(request.db, request.tenant, batch.id),
            by=request.decider,
            only_first=form.integer("rows") if "rows" in form else None,
            revision=form.integer("revision") if "revision" in form else None,
            accepts_names=form.is_checked("names"),
        )
    except Refusal as refusal:
        return _back(request, batch, failed=refusal.text)
    return _back(request, batch, done=DONE.get(status, "Nothing was changed."))


async def approve(request: PageRequest) -> PageResponse:
    """Approves the batch. A person who cannot approve it is not asked to confirm their identity."""
    batch = await _batch(request)
    try:
        await batches.check_approval(request.db, batch, request.decider)
    except Refusal as refusal:
        return _back(request, batch, failed=refusal.text)
    await request.confirm_identity()
    return await _decide(request, batches.approve, "Approved. Payment started.")


async def refuse(request: PageRequest) -> PageResponse:
    return await _decide(request, batches.refuse, "Rejected. Nothing was paid.")


async def stop(request: PageRequest) -> PageResponse:
    done = "Stopped. Payouts that were already sent continue."
    return await _decide(request, batches.stop, done)


async def _decide(request: PageRequest, decide: Callable[..., Any], done: str) -> PageResponse:
    batch = await _batch(request)
    try:
        await decide(request.db, request.tenant, batch.id, by=request.decider)
        await request.services.settling.look_again(request.tenant, batch.id)
    except Refusal as refusal:
        return _back(request, batch, failed=refusal.text)
    return _back(request, batch, done=done)


def _back(
    request: PageRequest, batch: Batch, *, done: str | None = None, failed: str | None = None
) -> PageResponse:
    return request.redirect(f"~/payouts/bulk/{batch.id}", done=done, failed=failed)


async def _batch(request: PageRequest) -> Batch:
    try:
        return await batches.find(request.db, request.tenant, request.parameter("batch"))
    except batches.BatchNotFound:
        raise PageNotFound from None


def _state(request: PageRequest) -> RowState | None:
    return request.query.choice("state", RowState) if request.query.text("state") else None
