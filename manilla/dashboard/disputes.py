"""Dispute pages: the list, and one dispute, which the merchant accepts or contests."""

from typing import Any

from manilla.dashboard import uploads
from manilla.disputes import bundle, figures, store
from manilla.disputes import listing as disputes
from manilla.disputes.dispute import (
    FIELD_LENGTH_MAX,
    FILES_MAX,
    TEXT_LENGTH_MAX,
    Dispute,
    DisputeStatus,
    EvidenceIncomplete,
)
from manilla.disputes.evidence import EvidenceFileNotFound
from manilla.disputes.service import BadAcceptedAmount
from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger.transactions import TransactionNotFound
from manilla.lookup import story
from manilla.merchants import wallets
from manilla.merchants.documents import BYTES_MAX, BadDocument
from manilla.merchants.wallets import WalletNotFound
from manilla.payments import store as payments
from manilla.people.roles import Permission
from manilla.web import record_list, timeline
from manilla.web.columns import transactions as transaction_columns
from manilla.web.exports import attachment
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.record_list import RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

PAGE, TEMPLATE = "~/disputes", "dispute.html"
# The largest request with a text, fields and one file. Above it, the page cannot show an error.
UPLOAD_BYTES_MAX = 3 * BYTES_MAX
FIELD = "evidence_"  # the prefix of the form fields that the provider asks for
PLACES = {"text": "text", "files": "file"}  # the form's fields for errors of the evidence
BELOW = "below_"  # the prefix of the amount's field, so that each currency has its own errors
VIEWS, ALL = transaction_columns.DISPUTE_VIEWS, transaction_columns.ALL_DISPUTES

COLUMNS = disputes.FIELDS.select(
    "trx_id ref_trx payment_trx_id provider_reference status stage category reason currency amount"
    " withheld taken short fee opened_at respond_by missed_at outcome_at created_at updated_at"
)

LIST = RecordList(
    "disputes",
    "dispute",
    transaction_columns.DISPUTE_COLUMNS,
    disputes.disputes,
    disputes.totals,
)


async def show_all(request: PageRequest) -> PageResponse:
    """Lists a view of the disputes, by default those that need a response, sorted by deadline."""
    chosen = request.query.text("show")
    if chosen not in VIEWS:
        chosen = ALL if request.query.text("q") else next(iter(VIEWS))
    view = VIEWS[chosen][1]
    wanted = transaction_columns.read_dispute_filter(request, view)
    filters = [
        *transaction_columns.dispute_filters(view),
        *record_list.currency_filter(sorted((await request.caller()).currencies)),
    ]
    return await LIST.show(
        *(request, "disputes.html", COLUMNS, [request.tenant], wanted, filters),
        views=("show",),
        chosen=chosen,
        tabs=[(name, title) for name, (title, _) in VIEWS.items()],
        limits=await wallets.dispute_limits(request.db, request.tenant),
        below=BELOW,
    )


async def accept_below(request: PageRequest) -> PageResponse:
    """Saves the amount below which new disputes are accepted automatically."""
    currency = request.parameter("currency")
    try:
        limit = request.form.money(BELOW + currency, currency)
        await request.confirm_identity()
        await wallets.accept_disputes_below(
            request.db, request.merchant_id, request.environment, limit
        )
    except WalletNotFound:
        raise PageNotFound from None
    except Refusal as refusal:
        return request.redirect_with_errors(PAGE, refusal, keep=(BELOW + currency,))
    done = f"New disputes below {money(limit)} will be accepted automatically."
    off = f"New disputes in {currency} will not be accepted automatically."
    return request.redirect(PAGE, done=done if limit.minor else off)


async def show(request: PageRequest) -> PageResponse:
    return request.page(TEMPLATE, **await _details(request))


async def send_file(request: PageRequest) -> PageResponse:
    number = int(request.parameter("file"))
    try:
        file, content = await request.services.disputes.read_file(*_key(request), number)
    except (EvidenceFileNotFound, TransactionNotFound):
        raise PageNotFound from None
    return attachment(bundle.file_name(file), file.media_type, content)


async def contest(request: PageRequest) -> PageResponse:
    """Saves the evidence, and adds or removes a file. The submit button then sends the answer."""
    service, key = request.services.disputes, _key(request)
    dispute = await _dispute(request)
    is_submitted = "submit" in request.form
    try:
        await _save(request, dispute)
        if is_submitted:
            await service.submit(*key)
    except Refusal as refusal:
        return await _rejected(request, refusal)
    done = "Your evidence was submitted." if is_submitted else "Saved. Nothing was submitted yet."
    return request.redirect(f"~/disputes/{dispute.trx_id}", done=done)


async def review_acceptance(request: PageRequest) -> PageResponse:
    dispute = await _dispute(request)
    try:
        accepted = _accepted(request, dispute)
    except Refusal as refusal:
        return await _rejected(request, refusal)
    return request.page(TEMPLATE, **{**await _details(request), "accepted": accepted})


async def accept(request: PageRequest) -> PageResponse:
    dispute = await _dispute(request)
    try:
        accepted = _accepted(request, dispute)
        await request.confirm_identity()
        await request.services.disputes.accept(*_key(request), accepted.amount)
    except Refusal as refusal:
        return await _rejected(request, refusal)
    done = f"You accepted {money(accepted)}."
    return request.redirect(f"~/disputes/{dispute.trx_id}", done=done)


async def _save(request: PageRequest, dispute: Dispute) -> None:
    service, key, form = request.services.disputes, _key(request), request.form
    names = [each.name for each in service.evidence_fields(dispute)]
    fields = {name: form.text(FIELD + name, at_most=FIELD_LENGTH_MAX) for name in names}
    text = form.text("text", at_most=TEXT_LENGTH_MAX)
    # What was submitted through the API can have more fields than the form.
    await service.set_evidence(*key, text, {**dispute.fields, **fields})
    if form.has_file("file"):
        await uploads.count(request)
        uploaded = form.file("file")
        await service.add_file(*key, uploaded.name, uploaded.content)
    if "remove" in form:
        await service.remove_file(*key, form.integer("remove"))


def _accepted(request: PageRequest, dispute: Dispute) -> Money:
    accepted = request.form.money("amount", dispute.currency)
    if not 0 < accepted.minor <= dispute.withheld_minor:
        raise BadForm(errors={"amount": BadAcceptedAmount.message})
    return accepted


async def _rejected(request: PageRequest, refusal: Refusal) -> PageResponse:
    if isinstance(refusal, EvidenceIncomplete):
        errors = (refusal.errors or {}).items()
        placed = {PLACES.get(name, FIELD + name): text for name, text in errors}
        refusal = EvidenceIncomplete(errors=placed)
    at = ((BadDocument, "file"), (BadAcceptedAmount, "amount"))
    return request.form_with_errors(TEMPLATE, refusal, at=at, **await _details(request))


async def _details(request: PageRequest) -> dict[str, Any]:
    db, dispute = request.db, await _dispute(request)
    steps, postings = await story.of_dispute(db, dispute)
    fields = request.services.disputes.evidence_fields(dispute)
    return {
        "dispute": dispute,
        "payment": await payments.payment(db, dispute.merchant_id, dispute.payment_trx_id),
        "files": await store.files_of(db, dispute.merchant_id, dispute.trx_id),
        "refunds": await store.refunds_beside(db, dispute),
        "fields": fields,
        "field_titles": [(each.name, each.title) for each in fields],
        "timeline_events": timeline.of_dispute(steps, postings),
        "may_answer": request.may(Permission.MOVE_MONEY)
        and dispute.status is DisputeStatus.NEEDS_RESPONSE
        and not dispute.is_due,
        "accepted": None,
        "seconds_left": figures.seconds_left(dispute),
        "files_max": FILES_MAX,
        "bytes_max": BYTES_MAX,
    }


async def _dispute(request: PageRequest) -> Dispute:
    try:
        return await request.services.disputes.get(*_key(request))
    except TransactionNotFound:
        raise PageNotFound from None


def _key(request: PageRequest) -> tuple[Any, str]:
    return request.tenant, request.parameter("dispute")
