"""Case pages: our evidence, the provider's evidence, and the allowed resolutions."""

from typing import Any

import msgspec
from markupsafe import Markup

from manilla.approvals import approvals, changes
from manilla.approvals.changes import apply_or_ask
from manilla.approvals.kinds import CaseResolution
from manilla.approvals.queries import Approval
from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.audit.entry import AuditEntry
from manilla.cases import cases, listing
from manilla.cases.cases import NOTE_LENGTH_MAX, Case, CaseAction, CaseKind, CaseNotFound
from manilla.cases.listing import CaseFilter, CaseStatus
from manilla.console import evidence, list_pages, responses
from manilla.console.providers import titles
from manilla.kit.display import money, with_symbols
from manilla.kit.errors import Refusal
from manilla.kit.listing import number as parse_number
from manilla.kit.listing.sorting import SortOrder
from manilla.merchants import roster
from manilla.methods.method import MethodKind
from manilla.people.roles import Permission
from manilla.providers import status_query
from manilla.resolutions import resolutions
from manilla.web import record_list, table_cells
from manilla.web.display import badge
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList, time_column
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

TEMPLATE = "case.html"

TITLES: dict[str, str] = {
    CaseKind.PAID_AFTER_DECLINE: "Paid after decline",
    CaseKind.SECOND_CHARGE_PAID: "Paid twice",
    CaseKind.LINK_ALREADY_PAID: "Payment link paid twice",
    CaseKind.WALLET_FULL: "Wallet balance limit exceeded",
    CaseKind.WRONG_AMOUNT: "Wrong amount received",
    CaseKind.NOT_RETURNED: "Money not returned to the customer",
    CaseKind.WEBHOOK_DISAGREES: "Webhook and status query disagree",
    CaseKind.UNKNOWN_REFERENCE: "Unknown reference",
    CaseKind.ACCOUNT_TRANSFER: "Transfer to a customer held",
    CaseKind.UNKNOWN_ACCOUNT: "Transfer into an unknown account",
    CaseKind.ACCOUNT_NOT_CREATED: "Customer's account not confirmed",
    CaseKind.UNKNOWN_DISPUTE: "Dispute that fits no payment",
    CaseKind.CONTRADICTION: "Provider contradicted a final status",
    CaseKind.STATEMENT_DIFFERS: "Statement and ledger differ",
    CaseKind.CLEARING_DIFFERS: "Ledger and provider balance differ",
    CaseKind.NOT_AS_ACCEPTED: "Changed after it was accepted",
    CaseKind.STILL_OPEN: "Still pending at the provider",
    CaseKind.NO_ANSWER: "No response from the provider",
}
ACTIONS: dict[str, str] = {
    CaseAction.NOTHING: "Move no money",
    CaseAction.CREDIT: "Credit the merchant",
    CaseAction.RETURN: "Return to the payer",
    CaseAction.KEEP: "Keep for the platform",
    CaseAction.WRITE_OFF: "Write off",
    CaseAction.DEBIT: "Debit the merchant",
    CaseAction.REVERSE: "Mark the payout as reversed",
}

COLUMNS = listing.FIELDS.select(
    "id merchant_id environment kind reference trx_id provider currency amount detail status"
    " resolution"
    " opened_at resolved_at"
)


def _link(request: PageRequest, row: Case) -> Markup:
    return table_cells.link(request, row.path, TITLES.get(row.kind, row.kind))


def what_happened(case: Case) -> str:
    """Returns how the case was resolved or, for an open case, what is wrong."""
    action, colon, note = (case.resolution or "").partition(": ")
    if colon and action in ACTIONS:
        return f"{ACTIONS[action]}: {note}"
    return with_symbols(case.resolution or case.detail)


LIST = RecordList(
    "cases",
    "case",
    list_pages.with_merchant(
        (
            time_column("Opened", "opened_at"),
            ListColumn("case", "Case", _link, place=Place.NAME),
            ListColumn("number", "Number", lambda _, row: row.id, is_default=False),
            ListColumn(
                "reference", "Reference", lambda _, row: table_cells.identifier(row.reference)
            ),
            ListColumn(
                "details",
                "Details",
                lambda _, row: table_cells.long_text(what_happened(row)),
                Place.DETAIL,
                is_wide=True,
            ),
            ListColumn(
                "status",
                "Status",
                lambda _, row: badge(row.status),
                sorts=(SortOrder.STATUS,),
                place=Place.STATUS,
            ),
            ListColumn(
                "amount",
                "Amount",
                lambda _, row: money(row.amount) if row.amount else "—",
                is_number=True,
                sorts=record_list.BY_AMOUNT,
                place=Place.AMOUNT,
            ),
        )
    ),
    listing.cases,
    listing.totals,
)


async def show_all(request: PageRequest) -> PageResponse:
    status = list_pages.selection(request, "status", list(CaseStatus))
    wanted = msgspec.structs.replace(
        record_list.read_amounts(request, CaseFilter, "kind"),
        status=None if status == list_pages.ALL else CaseStatus(status),
    )
    statuses = record_list.choices([*CaseStatus, list_pages.ALL])
    filters = [
        ListFilter("status", "Status", statuses, value=status),
        ListFilter("kind", "Type", [(each.value, TITLES[each]) for each in CaseKind]),
    ]
    scope = list_pages.queue_scope(request)
    return await list_pages.show(
        *(request, LIST, "cases.html", COLUMNS, [scope], wanted, filters), views=list_pages.VIEWS
    )


async def show(request: PageRequest) -> PageResponse:
    return request.page(TEMPLATE, **await _details(request, await _case(request)))


async def ask(request: PageRequest) -> PageResponse:
    """Sends a status query to the provider and shows the response, which is not stored."""
    details = await _details(request, await _case(request))
    if details["evidence"].question is None:
        raise PageNotFound
    details["said"] = await status_query.ask(request.services.rails, details["evidence"].question)
    return request.page(TEMPLATE, **details)


async def resolve(request: PageRequest) -> PageResponse:
    """Resolves the case, or requests an approval if the user may not move money alone."""
    case = await _case(request)
    try:
        action = request.form.choice("action", CaseAction)
        note = request.form.required("note", at_most=NOTE_LENGTH_MAX)
        resolution = CaseResolution(
            *(case.id, action, note, case.merchant_id or None),
            await resolutions.amount(request.db, case),
            needs_second=not request.may(Permission.MONEY_ALONE),
        )
        await changes.check(request.approvals, resolution)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, resolution, note)
    except BadForm as refusal:
        return request.form_with_errors(TEMPLATE, refusal, **await _details(request, case))
    except Refusal as refusal:
        return request.form_with_errors(
            TEMPLATE, refusal, **await _details(request, await _case(request))
        )
    done = f"Resolved: {ACTIONS[action].lower()}."
    return responses.done_or_asked(request, case.path, result, done)


async def close(request: PageRequest) -> PageResponse:
    """Closes a case without moving money, if ledger and provider no longer differ."""
    case = await _case(request)
    try:
        await resolutions.close_vanished(request.db, case.id, merchant_id=case.merchant_id)
    except Refusal as refusal:
        return request.form_with_errors(
            TEMPLATE, refusal, **await _details(request, await _case(request))
        )
    return request.redirect(case.path, done="Closed: there is no difference.")


async def _case(request: PageRequest) -> Case:
    """Returns the case that the path names. The merchant may be omitted if the number is unique."""
    case_id = list_pages.path_number(request, "case")
    try:
        return await cases.find(request.db, case_id, merchant_id=_merchant(request))
    except CaseNotFound:
        raise PageNotFound from None


def _merchant(request: PageRequest) -> int | None:
    given = request.form if request.http.method == "POST" else request.query
    text = given.text("merchant")
    if not text:
        return None
    number = parse_number(text)
    if number is None:
        raise PageNotFound
    return number


async def _details(request: PageRequest, case: Case) -> dict[str, Any]:
    db = request.db
    about = AuditFilter(merchant_id=case.merchant_id or None, subject=f"case:{case.id}")

    def is_about_case(record: AuditEntry | Approval) -> bool:
        return (record.subject, record.merchant_id) == (about.subject, about.merchant_id)

    return {
        "case": case,
        "what_happened": what_happened(case),
        "title": TITLES.get(case.kind, case.kind),
        "names": await roster.names(db, [case.merchant_id]),
        "evidence": await evidence.gather(
            db, case, request.services.methods.names(MethodKind.DEPOSIT)
        ),
        "said": None,
        "ways": await resolutions.options(db, case),
        "actions": ACTIONS,
        "providers": titles(request),
        "history": await cases.history(db, case),
        "lines": [line for line in await audit.list_entries(db, about) if is_about_case(line)],
        "approvals": [each for each in await approvals.waiting(db) if is_about_case(each)],
    }
