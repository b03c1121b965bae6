"""Dispute pages: the list, one dispute with its answer, manual records, and merchants' rates."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from manilla.approvals import approvals
from manilla.approvals.changes import apply_or_ask
from manilla.approvals.dispute_record import DisputeRecord
from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.cases import listing as cases
from manilla.console import list_pages, responses
from manilla.console.notifications import FIELD_FORMAT, read_moment
from manilla.console.providers import titles
from manilla.disputes import bundle, disputed, figures, manual, store
from manilla.disputes import listing as disputes
from manilla.disputes.dispute import AnswerState, Dispute, DisputeStatus
from manilla.disputes.evidence import EvidenceFileNotFound
from manilla.disputes.figures import DisputeRate
from manilla.disputes.manual import RecordRefused
from manilla.kit.clock import LAGOS
from manilla.kit.errors import Refusal
from manilla.kit.fields import Columns
from manilla.ledger.transactions import TransactionNotFound
from manilla.lookup import story
from manilla.merchants import merchants, roster
from manilla.payments import store as payments
from manilla.payments.payment import Charge
from manilla.people.roles import Permission
from manilla.providers.port import DisputeState, ReportedDisputeStatus
from manilla.web import exports, record_list, timeline
from manilla.web.columns import transactions as transaction_columns
from manilla.web.exports import attachment
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListFilter, RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

TEMPLATE, NEW = "dispute.html", "dispute_new.html"
TEXT_LENGTH_MAX = 200
MONTHS = 6
MONTH_FORMAT = "%Y-%m"
# The views of the list. Administrators also have a view of the answers that wait for them.
VIEWS: dict[str, tuple[str, Mapping[str, Any] | None]] = {
    "due": transaction_columns.DISPUTE_VIEWS["due"],
    "answers": ("To review or send", {"waits_for_operator": True}),
    **transaction_columns.DISPUTE_VIEWS,
}

COLUMNS = disputes.FIELDS.select(
    "trx_id ref_trx payment_trx_id merchant_id environment provider provider_reference status"
    " answer stage category reason currency amount withheld taken short fee opened_at respond_by"
    " missed_at outcome_at created_at updated_at"
)

LIST = RecordList(
    "all_disputes",
    "dispute",
    list_pages.with_merchant(transaction_columns.DISPUTE_COLUMNS),
    disputes.disputes,
    disputes.totals,
)


async def show_all(request: PageRequest) -> PageResponse:
    """Lists the disputes of all merchants, by default those that end first at the top."""
    scope, here = (
        list_pages.queue_scope(request),
        list_pages.selection(request, "show", list(VIEWS)),
    )
    view = VIEWS[here][1]
    wanted = transaction_columns.read_dispute_filter(request, view)
    filters = [
        *transaction_columns.dispute_filters(view),
        ListFilter("provider", "Provider", list(titles(request).items())),
        *record_list.currency_filter(request.services.methods.currencies),
    ]
    provider = request.query.text("provider") or None
    return await list_pages.show(
        *(request, LIST, "disputes.html", COLUMNS),
        *([scope], msgspec.structs.replace(wanted, provider=provider), filters),
        views=list_pages.VIEWS,
        chosen=here,
        tabs=[(name, title) for name, (title, _) in VIEWS.items()],
    )


async def show(request: PageRequest) -> PageResponse:
    return request.page(TEMPLATE, **await _details(request))


async def send_file(request: PageRequest) -> PageResponse:
    dispute = await _dispute(request)
    key = dispute.tenant, dispute.trx_id, list_pages.path_number(request, "file")
    try:
        file, content = await request.services.disputes.read_file(*key)
    except EvidenceFileNotFound:
        raise PageNotFound from None
    return attachment(bundle.file_name(file), file.media_type, content)


async def send_answer(request: PageRequest) -> PageResponse:
    """Sends the answer as one file: its text and all files of the evidence."""
    dispute, service = await _dispute(request), request.services.disputes
    files = await store.files_of(request.db, dispute.merchant_id, dispute.trx_id)
    key = dispute.tenant, dispute.trx_id
    contents = [await service.read_file(*key, each.number) for each in files]
    content = bundle.pack(dispute, service.evidence_fields(dispute), contents)
    return attachment(f"{dispute.trx_id}.zip", "application/zip", content)


async def release(request: PageRequest) -> PageResponse:
    """Approves an answer, or records that it was sent at the provider."""
    dispute, services = await _dispute(request), request.services
    note = request.form.text("note")
    try:
        await request.confirm_identity()
        settings = services.platform.now
        after = await manual.release(request.db, services.rails, settings, dispute, note)
    except Refusal as refusal:
        return await _refused(request, refusal)
    is_sent = after.answer is AnswerState.SENT
    done = "The answer was marked as sent." if is_sent else "The answer was approved."
    return request.redirect(f"/disputes/{dispute.trx_id}", done=done)


async def return_to_merchant(request: PageRequest) -> PageResponse:
    dispute = await _dispute(request)
    note = request.form.text("note")
    try:
        await request.confirm_identity()
        settings = request.services.platform.now
        await manual.return_to_merchant(request.db, settings, dispute, note)
    except Refusal as refusal:
        return await _refused(request, refusal)
    done = "The answer was returned to the merchant."
    return request.redirect(f"/disputes/{dispute.trx_id}", done=done)


async def show_new(request: PageRequest) -> PageResponse:
    """Shows the form for what a provider shows about a dispute, new or known."""
    return request.page(
        NEW, **_form_values(await _known(request)), charge=request.query.text("charge")
    )


async def record(request: PageRequest) -> PageResponse:
    """Opens or changes a dispute as the provider shows it, or requests an approval."""
    try:
        charge = await _charge(request)
        what = charge.provider, _state(request, charge), request.form.text("note")
        seen = await manual.preview(request.db, request.services.platform.now, *what)
        is_alone = request.may(Permission.MONEY_ALONE)
        change = DisputeRecord(*what, seen, needs_second=not is_alone)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, change, change.note)
    except Refusal as refusal:
        values = _form_values(await _known(request))
        at = ((RecordRefused, "charge"),)
        return request.form_with_errors(NEW, refusal, at=at, **values, charge="")
    trx_id = result.trx_id if isinstance(result, Dispute) else seen.trx_id
    path = "/disputes" if trx_id is None else f"/disputes/{trx_id}"
    return responses.done_or_asked(request, path, result, "The dispute was recorded.")


async def show_rates(request: PageRequest) -> PageResponse:
    """Shows each merchant's disputes and payments of a month, or a merchant's last months."""
    known = figures.months(datetime.now(LAGOS).date(), MONTHS)
    merchant_id = list_pages.merchant(request)
    text = request.query.text("month") or known[0].strftime(MONTH_FORMAT)
    month = next((each for each in known if each.strftime(MONTH_FORMAT) == text), None)
    if month is None:
        raise PageNotFound
    wanted = [month] if merchant_id is None else known
    rows = await figures.rates(request.reads, wanted, merchant_id)
    names = await roster.names(request.reads, [each.merchant_id for each in rows])
    if exports.is_wanted(request):
        return exports.send(request, "dispute-rates", _rate_columns(names), _in_one_page(rows))
    return request.page(
        "dispute_rates.html",
        rows=rows,
        names=names,
        month=month,
        months=known,
        merchant_id=merchant_id,
        settings=request.services.platform.now,
        disputes_min=figures.DISPUTES_MIN,
    )


def _rate_columns(names: Mapping[int, str]) -> Columns[DisputeRate]:
    return {
        "month": lambda each: each.month.strftime(MONTH_FORMAT),
        "merchant_id": lambda each: each.merchant_id,
        "merchant": lambda each: names.get(each.merchant_id, ""),
        "payments": lambda each: each.payments,
        "disputes": lambda each: each.disputes,
        "lost": lambda each: each.lost,
        "percent": lambda each: None if each.percent is None else f"{each.percent:.2f}",
    }


async def _in_one_page(rows: list[DisputeRate]) -> AsyncIterator[list[DisputeRate]]:
    yield rows


async def _refused(request: PageRequest, refusal: Refusal) -> PageResponse:
    return request.form_with_errors(TEMPLATE, refusal, **await _details(request))


async def _details(request: PageRequest) -> dict[str, Any]:
    db, dispute = request.db, await _dispute(request)
    steps, postings = await story.of_dispute(db, dispute)
    about = AuditFilter(merchant_id=dispute.merchant_id, subject=f"dispute:{dispute.trx_id}")
    fields = request.services.disputes.evidence_fields(dispute)
    return {
        "dispute": dispute,
        "payment": await payments.payment(db, dispute.merchant_id, dispute.payment_trx_id),
        "merchant": await merchants.get(db, dispute.merchant_id),
        "files": await store.files_of(db, dispute.merchant_id, dispute.trx_id),
        "refunds": await store.refunds_beside(db, dispute),
        "field_titles": [(each.name, each.title) for each in fields],
        "seconds_left": figures.seconds_left(dispute),
        "timeline_events": timeline.of_dispute(steps, postings, is_internal=True),
        "cases": await cases.about(db, dispute.merchant_id, dispute.payment_trx_id),
        "providers": titles(request),
        "lines": await audit.list_entries(db, about),
        "approvals": [
            each for each in await approvals.waiting(db) if each.subject == about.subject
        ],
    }


async def _dispute(request: PageRequest) -> Dispute:
    try:
        return await manual.find(request.db, request.parameter("dispute"))
    except TransactionNotFound:
        raise PageNotFound from None


async def _known(request: PageRequest) -> Dispute | None:
    """Returns the dispute that the administrator records a change of, or None for a new one."""
    given = request.form if request.http.method == "POST" else request.query
    trx_id = given.text("dispute")
    try:
        return await manual.find(request.db, trx_id) if trx_id else None
    except TransactionNotFound:
        raise PageNotFound from None


def _form_values(known: Dispute | None) -> dict[str, Any]:
    respond_by = None if known is None else known.respond_by.astimezone(LAGOS)
    return {
        "known": known,
        "statuses": record_list.choices(list(DisputeStatus)),
        "respond_by": "" if respond_by is None else respond_by.strftime(FIELD_FORMAT),
    }


async def _charge(request: PageRequest) -> Charge:
    """Returns the disputed charge. The form names it, or its payment."""
    charge = await disputed.charge_of(request.db, request.form.required("charge"))
    if charge is None:
        raise BadForm(errors={"charge": "No paid payment or charge of ours has this id."})
    return charge


def _state(request: PageRequest, charge: Charge) -> DisputeState:
    form, currency = request.form, charge.amount.currency
    return DisputeState(
        provider_reference=form.required("provider_reference", at_most=TEXT_LENGTH_MAX),
        status=ReportedDisputeStatus(form.choice("status", DisputeStatus)),
        charge_reference=charge.reference,
        amount=form.money("amount", currency),
        stage=form.text("stage", at_most=TEXT_LENGTH_MAX),
        category=form.text("category", at_most=TEXT_LENGTH_MAX),
        reason=form.text("reason", at_most=TEXT_LENGTH_MAX),
        opened_at=read_moment(form, "opened_at") if form.text("opened_at") else None,
        respond_by=read_moment(form, "respond_by") if form.text("respond_by") else None,
        fee=form.money("fee", currency) if form.text("fee") else None,
    )
