"""The log of API requests with their responses and errors."""

from manilla.ledger.scope import Tenant
from manilla.merchants import listing
from manilla.merchants.listing import RequestFilter
from manilla.merchants.request_queries import Request
from manilla.people.roles import Permission
from manilla.services import Services
from manilla.web import exports, lists
from manilla.web.exports import Column
from manilla.web.lists import ListView
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, page

OUTCOMES = {"answered": False, "refused": True}

COLUMNS: list[Column[Request]] = [
    Column("Time", lambda r: r.at),
    Column("Request id", lambda r: r.request_id),
    Column("Method", lambda r: r.method),
    Column("Path", lambda r: r.path),
    Column("Status", lambda r: r.status),
    Column("Error code", lambda r: r.error_code),
    Column("Error", lambda r: r.error),
    Column("Invalid fields", lambda r: "; ".join(f"{k}: {v}" for k, v in r.errors.items())),
    Column("Milliseconds", lambda r: f"{r.milliseconds:.1f}"),
    Column("From", lambda r: r.address),
    Column("Reference", lambda r: r.ref_trx),
    Column("Transaction", lambda r: r.trx_id),
]


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
