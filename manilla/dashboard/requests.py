"""The page of the API request log, with responses and errors."""

from functools import partial

from manilla.merchants.requests import listing
from manilla.merchants.requests.listing import RequestFilter
from manilla.reference.guidance import GUIDANCE
from manilla.web import lists
from manilla.web.page_request import PageRequest, PageResponse

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
        "Reference": "ref_trx",
        "Transaction": "trx_id",
    }
)


async def show(request: PageRequest) -> PageResponse:
    wanted = RequestFilter(
        refused=OUTCOMES.get(request.query.text("outcome")),
        error_code=request.query.text("code") or None,
        **lists.common_filters(request),
    )
    return await lists.show(
        request,
        "requests.html",
        "requests",
        COLUMNS,
        partial(listing.requests, request.db, request.tenant, wanted),
        documented_errors=GUIDANCE,
        outcomes=[("answered", "Accepted"), ("refused", "Rejected")],
    )
