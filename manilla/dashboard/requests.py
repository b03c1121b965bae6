"""The log of API requests with their responses and errors."""

from manilla.ledger.scope import Tenant
from manilla.merchants import listing
from manilla.merchants.listing import RequestFilter
from manilla.people.roles import Permission
from manilla.services import Services
from manilla.web import exports, lists
from manilla.web.lists import ListView
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, page

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


class RequestPages:
    def __init__(self, desk: Services) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        return [page("/{environment:str}/requests", self.show, Permission.USE_CREDENTIALS)]

    async def show(self, request: PageRequest) -> Answer:
        tenant = Tenant(request.merchant_id, request.environment)
        wanted = RequestFilter(
            refused=OUTCOMES.get(request.query.text("outcome")),
            error_code=request.query.text("code") or None,
            since=lists.day(request.query, "since"),
            until=lists.day(request.query, "until", is_end=True),
            search=request.query.text("q") or None,
        )
        if exports.is_wanted(request):
            pages = listing.all_requests(self._desk.db, tenant, wanted)
            return exports.send(request, "requests", COLUMNS, pages)
        found = await listing.requests(self._desk.db, tenant, wanted, after=lists.after(request))
        return request.page(
            "requests.html",
            requests=found.rows,
            listing=ListView(request, found.next),
            outcomes=[("answered", "Accepted"), ("refused", "Rejected")],
        )
