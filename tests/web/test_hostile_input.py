"""Malformed URLs lead to an error page, and never to a server error."""

import itertools
import re
from urllib.parse import urlencode

import pytest

from manilla.console import routes as console
from manilla.dashboard import routes as dashboard
from manilla.services import Services
from manilla.web.routes import Route
from tests.dashboard.sample_data import create_sample_data
from tests.support.client import Site, new_merchant
from tests.web.route_urls import address, parameters, shown
from tests.web.signed_in_user import SignedInUser, administrator, member

NASTY = (
    "\0",
    "'; --",
    "%_\\",
    "-1",
    "9" * 40,
    "1e400",
    "0001-01-01",
    "9999-12-31",
    "NaN",
    "\u202e\U0001d52b\ufffe",
    "x" * 300,
    "WyIwIl0",  # A pagination cursor from another list.
    "WyI5OTk5LTEyLTMxVDIzOjU5OjU5WiIsICJ6Il0",  # A pagination cursor for the year 9999.
)
# The number of hostile values to try for each page parameter. Parameters get different values.
TRIED = [1, pytest.param(3, marks=pytest.mark.long)]
ANYWHERE = frozenset({"after", "q", "currency"})
ELSEWHERE = ("q", "currency", "amount", "next")
PLACES = ("%00", "9" * 30, "%F0%9D%94%AB" + "x" * 300)
KNOWN = {"environment": "sandbox", "currency": "NGN"}
ANSWERS = (200, 303, 400, 404)

_NAMES = re.compile(rb'<(?:input|select)[^>]* name="([a-z_]+)"')


@pytest.fixture(scope="module")
async def owner(site: Site, services: Services) -> SignedInUser:
    merchant = await new_merchant(site, services.db, services.keyring)
    await create_sample_data(services, merchant, "Ada")
    return await member(services, site, merchant.new.id)


@pytest.fixture(scope="module")
async def administrator_user(site: Site, services: Services) -> SignedInUser:
    return await administrator(services, site, "nasty@console.example")


async def _fault(visitor: SignedInUser, route: Route, target: str) -> list[str]:
    reply = await visitor.get(target)
    is_file = reply.status == 200 and not route.is_page
    is_html = reply.headers.get("content-type", "").startswith("text/html")
    is_page = reply.status == 303 or is_html or is_file
    is_well = reply.status in ANSWERS and is_page
    return [] if is_well else [f"{shown(route)}, {target}: {reply.status}"]


async def _problems(visitor: SignedInUser, table: list[Route], tried: int) -> list[str]:
    faults, values, places = [], itertools.cycle(NASTY), itertools.cycle(PLACES)
    pages = [route for route in table if route.method == "GET" and not route.is_public]
    for route in pages:
        unknown = set(parameters(route)) - set(KNOWN)
        for place in itertools.islice(places, tried if unknown else 0):
            target = address(route, {**dict.fromkeys(parameters(route), place), **KNOWN})
            faults += await _fault(visitor, route, target)
        if not unknown:
            path = address(route, KNOWN)
            for name in await _names(visitor, path):
                for value in itertools.islice(values, tried):
                    target = f"{path}?{urlencode({name: value})}"
                    faults += await _fault(visitor, route, target)
    return faults


async def _names(visitor: SignedInUser, path: str) -> list[str]:
    page = (await visitor.get(path)).body
    if b"format=csv" not in page:
        return list(ELSEWHERE)
    return sorted({name.decode() for name in _NAMES.findall(page)} | ANYWHERE)


@pytest.mark.parametrize("tried", TRIED)
async def test_no_url_breaks_the_dashboard(owner: SignedInUser, tried: int) -> None:
    faults = await _problems(owner, dashboard.ROUTES, tried)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("tried", TRIED)
async def test_no_url_breaks_the_console(administrator_user: SignedInUser, tried: int) -> None:
    faults = await _problems(administrator_user, console.ROUTES, tried)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("format_", ["csv", "xlsx"])
async def test_a_rejected_export_is_an_error_page_and_not_a_broken_file(
    owner: SignedInUser, format_: str
) -> None:
    query = urlencode({"format": format_, "q": "x" * 220})
    for name in ("payments", "payouts", "wallets/NGN", "notifications", "requests"):
        reply = await owner.get(f"/sandbox/{name}?{query}")
        assert reply.status == 400, name
        assert reply.headers["content-type"].startswith("text/html"), name
