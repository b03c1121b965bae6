"""Searches the records of all merchants, and finds the console page of the record with an id."""

import asyncio
from urllib.parse import quote

from manilla.cases import listing as cases
from manilla.cases.cases import path as case_path
from manilla.cases.listing import CaseFilter
from manilla.kit import deadline, time_limits
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import Reads
from manilla.kit.errors import Unavailable
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.lookup import customers as customer_search
from manilla.lookup import search as transaction_search
from manilla.lookup.find import LookupResult, find, find_payout, find_request, is_request_id
from manilla.lookup.search import HITS_MAX, HitKind, SearchHit
from manilla.merchants import merchants, roster
from manilla.merchants.roster import MerchantFilter
from manilla.people import queries as people
from manilla.people.roles import Permission, Realm
from manilla.transaction_types import BY_NAME
from manilla.web import search as web_search
from manilla.web.page_request import PageRequest
from manilla.web.search import RealmSearch
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound


async def path_of(db: Database, text: str) -> str | None:
    """Returns the path of the console page for the record with this id, or None."""
    # A number is looked up only as a payout reference, because the case list finds case numbers.
    search = find_payout if text.isdigit() else find
    try:
        async with asyncio.timeout(time_limits.current.lookup_seconds):
            found = await search(db, text)
    except (TimeoutError, Unavailable):
        return None
    return None if found is None else _path(found)


def _path(found: LookupResult) -> str:
    match found.kind:
        case "notification":
            return f"/notifications/{found.id}"
        case "request":
            return f"/requests/{found.id}"
        case "customer":
            return f"/customers/{found.id}"
    if found.trx_id is not None:
        return f"/transactions/{found.trx_id}"
    return f"/ledger/postings?q={quote(found.id)}"


async def show_request(request: PageRequest) -> PageResponse:
    db = request.db
    found = await find_request(db, request.parameter("request_id"))
    if found is None:
        raise PageNotFound
    merchant = await merchants.get(db, found.merchant_id)
    return request.page("request.html", api_request=found, merchant=merchant)


async def _find(request: PageRequest, text: str) -> list[SearchHit]:
    db = request.db
    currencies = request.services.methods.currencies
    parts = await asyncio.gather(
        transaction_search.transactions(request.reads, Everyone(), text, currencies),
        _merchants(request.reads, text),
        customer_search.customers(request.reads, Everyone(), text),
        _people(request, text),
        _cases(request.reads, text),
        web_search.notification(db, text),
        _requests(db, text),
    )
    return [hit for part in parts for hit in part]


async def _merchants(db: Reads, text: str) -> list[SearchHit]:
    page = await roster.merchants(db, MerchantFilter(search=text), limit=HITS_MAX)
    return [
        SearchHit(
            kind=HitKind.MERCHANT,
            id=str(row.id),
            title=row.name,
            field="Email" if text.lower() in row.email else "Merchant number",
            value=row.email if text.lower() in row.email else str(row.id),
            status=row.status,
            created_at=row.created_at,
        )
        for row in page.rows
    ]


async def _people(request: PageRequest, text: str) -> list[SearchHit]:
    """Finds console users. Returns an empty list if the current user may not manage users."""
    if not request.may(Permission.PEOPLE):
        return []
    return [
        SearchHit(
            kind=HitKind.PERSON,
            id=str(person.id),
            title=person.name,
            field="Email",
            value=person.email,
            status=person.status,
        )
        for person in await people.search(request.db, Realm.CONSOLE, text, HITS_MAX)
    ]


async def _cases(db: Reads, text: str) -> list[SearchHit]:
    """Finds the case with this number, or the cases of the transaction with this id."""
    if not text.isdigit() and trx_ids.merchant_of(text.partition("-")[0]) is None:
        return []
    page = await cases.cases(db, Everyone(), CaseFilter(search=text), limit=HITS_MAX)
    return [
        SearchHit(
            kind=HitKind.CASE,
            id=str(case.id),
            title=f"Case {case.id}",
            field="Case number" if str(case.id) == text else "Reference",
            value=text,
            merchant_id=case.merchant_id,
            environment=case.environment,
            status=case.status,
            created_at=case.opened_at,
        )
        for case in page.rows
    ]


async def _requests(db: Database, text: str) -> list[SearchHit]:
    """Finds the API request with this id. Does not search if the text is not a request id."""
    found = await deadline.or_none(find_request(db, text)) if is_request_id(text) else None
    if found is None:
        return []
    return [
        SearchHit(
            kind=HitKind.REQUEST,
            id=found.request_id,
            title=found.request_id,
            field="Request ID",
            value=text,
            merchant_id=found.merchant_id,
            environment=found.environment,
        )
    ]


def _path_of_hit(_request: PageRequest, hit: SearchHit) -> str:
    if hit.kind in BY_NAME:
        return f"{BY_NAME[hit.kind].console_path}/{hit.id}"
    if hit.kind is HitKind.CASE:
        return case_path(hit.merchant_id or 0, int(hit.id))
    return "/people" if hit.kind is HitKind.PERSON else f"/{hit.kind}s/{hit.id}"


SEARCH = RealmSearch(
    _find,
    _path_of_hit,
    (("Payments", "/transactions?kind=payment"), ("Payouts", "/transactions?kind=payout")),
)
show_search, show_results = SEARCH.show, SEARCH.show_results
