"""The console's page about all cells, in a browser, with cells that respond and others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import Browser

from manilla.cells import registry
from manilla.kit.embedded.postgres import Cluster
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus
from manilla.people.roles import ConsoleRole
from manilla.services import Services
from manilla.settings import Settings
from tests.cells.pair import CellPair, running_pair
from tests.checkout.page_checks import accessibility_violations, overflow
from tests.console.conftest import SCRIPT
from tests.support.databases import running
from tests.support.instance import free_port
from tests.support.limits import limited
from tests.support.rows import first_short
from tests.web.layout import check_nothing_is_cut_off
from tests.web.signed_in_user import SignedInUser, administrator

KANO = (3_000_000, 3_999_999)
HOSTILE: dict[str, Any] = {
    "name": "kano",
    "version": f"9.9 {SCRIPT}",
    "merchants": 5,
    "tasks": {"cases": 3, SCRIPT: 7},
    "volumes": [{"currency": "NGN", "paid_in_minor": 123456, "paid_out_minor": 0}],
    "payouts_held": True,
    "broken_rules": 2,
    "checked_at": "2026-01-31T10:00:00Z",
}


@pytest.fixture(scope="module")
async def pair(cluster: Cluster, settings: Settings) -> AsyncIterator[CellPair]:
    async with running_pair(cluster, settings, "cells_page") as both:
        for number in range(3):
            status = MerchantStatus.PENDING if number == 0 else MerchantStatus.APPROVED
            await merchants.create(
                *(both.abuja.services.db, both.abuja.services.keyring),
                name=f"Shop {number}",
                email="a@example.com",
                status=status,
            )
        yield both


@pytest.fixture(scope="module")
async def administrator_in_lagos(pair: CellPair) -> SignedInUser:
    return await administrator(pair.lagos.services, pair.lagos.site, "ada@lagos.example")


@contextlib.asynccontextmanager
async def _kano(services: Services, answer: Any) -> AsyncIterator[list[web.Request]]:
    """Runs a server as the cell kano, which sends the given answer."""
    seen: list[web.Request] = []

    async def respond(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        if isinstance(answer, web.Response):
            return answer
        return web.json_response(answer)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        await registry.add(services.db, "kano", f"http://127.0.0.1:{port}", *KANO)
        await registry.change(services.db, services.keyring, "kano", token="cell_token_of_kano")
        await services.watch.look()
        yield seen
    finally:
        await registry.remove(services.db, "kano")
        await services.watch.look()
        await runner.cleanup()


async def _text(user: SignedInUser) -> str:
    reply = await user.get("/cells")
    assert reply.status == 200
    return reply.body.decode()


async def test_the_page_shows_the_figures_of_every_cell(
    pair: CellPair, administrator_in_lagos: SignedInUser, browser: Browser
) -> None:
    context = await browser.new_context(viewport={"width": 1366, "height": 900})
    await administrator_in_lagos.enter(context)
    page = await context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    base_url = pair.lagos.base_url
    await page.goto(f"{base_url}/console/")
    await page.get_by_role("link", name="Show all cells").click()
    rows = page.locator("table tbody tr")
    assert await rows.count() == 2
    lagos, abuja = rows.nth(0), rows.nth(1)
    assert "this cell" in await lagos.inner_text()
    cells = [await each.inner_text() for each in await abuja.locator("td").all()]
    assert cells[:5] == ["abuja", "Up", "3", "1,048,576 to 2,097,151", "1"]
    tasks = page.get_by_role("region", name="Cell abuja")
    link = tasks.get_by_role("link", name="Pending merchants")
    expected = f"{pair.abuja.base_url}/console/merchants?status=pending"
    assert await link.get_attribute("href") == expected
    for width in (390, 1366):
        assert await overflow(page, width) == 0
        assert await accessibility_violations(page) == []
    assert errors == []
    await context.close()
    await check_nothing_is_cut_off(browser, administrator_in_lagos, [f"{base_url}/console/cells"])


async def test_a_cell_that_does_not_respond_is_shown_as_such(
    pair: CellPair, administrator_in_lagos: SignedInUser
) -> None:
    db = pair.lagos.services.db
    await registry.add(db, "kano", f"http://127.0.0.1:{free_port()}", *KANO)
    try:
        await pair.look()
        assert "kano cannot be queried without a token" in await _text(administrator_in_lagos)
        await registry.change(db, pair.lagos.services.keyring, "kano", token="cell_x")
        text = await _text(administrator_in_lagos)
        assert "kano does not respond at http://127.0.0.1:" in text
        assert "The totals do not include: kano." in text
        assert "abuja" in text
    finally:
        await registry.remove(db, "kano")
        await pair.look()


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads until the client disconnects, and never responds."""
    await reader.read()
    writer.close()


async def test_a_cell_that_hangs_is_shown_as_such_after_the_time_limit(
    pair: CellPair, administrator_in_lagos: SignedInUser
) -> None:
    listener = await asyncio.start_server(_hang, "127.0.0.1", 0)
    db, keyring = pair.lagos.services.db, pair.lagos.services.keyring
    port = listener.sockets[0].getsockname()[1]
    await registry.add(db, "kano", f"http://127.0.0.1:{port}", *KANO)
    try:
        await registry.change(db, keyring, "kano", token="cell_x")
        await pair.look()
        with limited(cell_seconds=0.2):
            assert "kano did not respond in time at http://127.0.0.1:" in await _text(
                administrator_in_lagos
            )
    finally:
        listener.close()
        await registry.remove(db, "kano")
        await pair.look()


async def test_hostile_text_is_escaped_and_only_known_figures_are_shown(
    pair: CellPair, administrator_in_lagos: SignedInUser
) -> None:
    async with _kano(pair.lagos.services, HOSTILE) as seen:
        text = await _text(administrator_in_lagos)
    assert SCRIPT not in text
    assert "2 rules violated" in text
    assert "Payouts on hold" in text
    assert "₦1,234.56" in text
    [request] = seen
    assert request.headers["Authorization"] == "Bearer cell_token_of_kano"


@pytest.mark.parametrize(
    ("answer", "problem"),
    first_short(
        [
            ({**HOSTILE, "name": "abuja"}, "responded as another cell"),
            ({**HOSTILE, "merchants": "5"}, "sent a response that cannot be read"),
            (
                {**HOSTILE, "checked_at": "2026-01-31T10:00:00"},
                "sent a response that cannot be read",
            ),
            (
                {
                    **HOSTILE,
                    "volumes": [{"currency": "XXQ", "paid_in_minor": 1, "paid_out_minor": 1}],
                },
                "sent a response that cannot be read",
            ),
            (
                {
                    **HOSTILE,
                    "volumes": [{"currency": "NGN\n", "paid_in_minor": 1, "paid_out_minor": 1}],
                },
                "sent a response that cannot be read",
            ),
            (web.Response(status=401), "does not accept the token of this cell"),
            (web.Response(status=500, text=SCRIPT), "responded with status 500"),
            (web.Response(body=b"\xff\xfe{"), "sent a response that cannot be read"),
            (
                web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
                "responded with status 302",
            ),
        ],
        of_each=lambda row: row[1],
    ),
)
async def test_an_unusable_response_is_named_and_never_shown(
    pair: CellPair, administrator_in_lagos: SignedInUser, answer: Any, problem: str
) -> None:
    async with _kano(pair.lagos.services, answer):
        text = await _text(administrator_in_lagos)
    assert f"kano {problem}" in text
    assert SCRIPT not in text


async def test_every_role_of_the_console_may_read_the_page_and_nobody_else(
    pair: CellPair,
) -> None:
    services, site = pair.lagos.services, pair.lagos.site
    for role in ConsoleRole:
        user = await administrator(services, site, f"{role}@roles.example", role)
        assert (await user.get("/cells")).status == 200
    stranger = await site.send("GET", "/console/cells", {"Accept": "text/html"})
    assert stranger.status == 303


async def test_the_page_explains_that_an_installation_is_no_cell(own: Settings) -> None:
    async with running(own) as (services, site):
        user = await administrator(services, site, "ada@alone.example")
        assert "This installation is not a cell" in await _text(user)
        assert "Show all cells" not in (await user.get("/")).body.decode()
