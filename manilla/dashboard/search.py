"""The dashboard's search, which finds the merchant's own records in one environment."""

import asyncio

from manilla.lookup import customers, search
from manilla.lookup.search import HITS_MAX, HitKind, SearchHit
from manilla.people import members
from manilla.transaction_types import BY_NAME
from manilla.web import search as web_search
from manilla.web.page_request import PageRequest
from manilla.web.search import RealmSearch


async def _find(request: PageRequest, text: str) -> list[SearchHit]:
    caller = await request.caller()
    hits, found, notices, people = await asyncio.gather(
        search.transactions(request.reads, request.tenant, text, caller.currencies),
        customers.customers(request.reads, request.tenant, text),
        web_search.notification(request.db, text),
        _people(request, text),
    )
    own = request.merchant_id, request.environment
    hits += found
    hits += [hit for hit in notices if (hit.merchant_id, hit.environment) == own]
    return hits + people


async def _people(request: PageRequest, text: str) -> list[SearchHit]:
    wanted = text.lower()
    hits = [
        SearchHit(
            kind=HitKind.PERSON,
            id=str(member.person_id),
            title=member.name,
            field="Email" if wanted in member.email else "Name",
            value=member.email,
        )
        for member in await members.list_of(request.db, request.merchant_id)
        if wanted in member.name.lower() or wanted in member.email
    ]
    return hits[:HITS_MAX]


def _path(_request: PageRequest, hit: SearchHit) -> str:
    if hit.kind is HitKind.PERSON:
        return "/team"
    if hit.kind in BY_NAME:
        return f"{BY_NAME[hit.kind].dashboard_path}/{hit.id}"
    return f"~/{hit.kind}s/{hit.id}"


SEARCH = RealmSearch(_find, _path, (("Payments", "~/payments"), ("Payouts", "~/payouts")))
show, show_results = SEARCH.show, SEARCH.show_results
