"""The API request log page: requests with their responses and errors."""

import msgspec
from markupsafe import Markup

from manilla.kit.display import clean
from manilla.merchants.requests import listing
from manilla.merchants.requests.listing import RequestFilter
from manilla.merchants.requests.stored import Request
from manilla.reference.guidance import GUIDANCE
from manilla.web import lists, table_cells
from manilla.web.display import badge
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList, time_column
from manilla.web.serving.response import PageResponse

PATH_LENGTH_MAX = 80
API_ROOT = "/api/v1"  # all requests have this prefix, so the list does not show it
OUTCOMES = {"answered": False, "refused": True}

COLUMNS = listing.FIELDS.select(
    {
        "Time": "at",
        "Request id": "request_id",
        "Method": "method",
        "Path": "path",
        "Status": "status",
        "Error code": "error_code",
        "Error": "error",
        "Invalid fields": "invalid_fields",
        "Milliseconds": "rounded_milliseconds",
        "From": "address",
        "API key": "api_key",
        "Reference": "ref_trx",
        "Transaction": "trx_id",
    }
)


def _request(_request: PageRequest, row: Request) -> Markup:
    path = clean(row.path.removeprefix(API_ROOT), PATH_LENGTH_MAX)
    return Markup("<code>{} {}</code>").format(row.method, path)


def _reference(request: PageRequest, row: Request) -> Markup | str:
    if not row.ref_trx or not row.trx_id:
        return table_cells.text(row.ref_trx)
    kind = "payouts" if "payout" in row.path else "payments"
    return table_cells.link(request, f"~/{kind}/{row.trx_id}", row.ref_trx)


def _response(_request: PageRequest, row: Request) -> Markup:
    return badge("failed" if row.error_code else "success", str(row.status))


def _error(_request: PageRequest, row: Request) -> Markup | str:
    """Returns the error code, the message and the invalid fields, linked to the error's page."""
    if row.error_code is None:
        return "—"
    fields = [f"{name}: {text}" for name, text in row.errors.items()]
    shown = table_cells.long_text(" · ".join(filter(None, (row.error_code, row.error, *fields))))
    if row.error_code not in GUIDANCE:
        return shown
    return Markup('{} <a href="/docs/errors#{}">Cause and fix</a>').format(shown, row.error_code)


LIST = RecordList(
    "requests",
    "request",
    (
        time_column("Time", "at"),
        ListColumn("request", "Request", _request, place=Place.NAME),
        ListColumn("reference", "Reference", _reference, place=Place.ASIDE),
        ListColumn("response", "Response", _response, place=Place.STATUS),
        ListColumn("error", "Error", _error, is_wide=True, place=Place.DETAIL),
        ListColumn(
            "milliseconds",
            "Duration",
            lambda _, row: f"{row.milliseconds:.1f} ms",
            is_number=True,
            is_default=False,
        ),
        ListColumn(
            "key", "API key", lambda _, row: table_cells.text(row.api_key), is_default=False
        ),
        ListColumn("from", "From", lambda _, row: row.address, is_default=False),
        ListColumn("id", "Request id", lambda _, row: row.request_id, is_default=False),
    ),
    listing.requests,
    listing.totals,
)


async def show(request: PageRequest) -> PageResponse:
    wanted = msgspec.structs.replace(
        lists.read_filter(request, RequestFilter),
        refused=OUTCOMES.get(request.query.text("outcome")),
        error_code=request.query.text("code") or None,
    )
    outcomes = [("answered", "Accepted"), ("refused", "Rejected")]
    filters = [ListFilter("outcome", "Outcome", outcomes), ListFilter("code", "Error code")]
    return await LIST.show(request, "requests.html", COLUMNS, [request.tenant], wanted, filters)
