"""Finds the console page for an id of any kind of record."""

import asyncio
from urllib.parse import quote

from manilla.kit.db import Database
from manilla.kit.errors import Unavailable
from manilla.lookup.find import LookupResult, find, find_payout, find_request
from manilla.merchants import merchants
from manilla.web.page_request import PageNotFound, PageRequest, PageResponse

SECONDS_MAX = 5


async def path_of(db: Database, text: str) -> str | None:
    """Returns the path of the console page for this id, or None if no record has it."""
    # The case list finds a case by its number, so here a number is a reference.
    search = find_payout if text.isdigit() else find
    try:
        async with asyncio.timeout(SECONDS_MAX):
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
