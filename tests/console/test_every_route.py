"""Rules that every route of the console must follow. The tests include new routes automatically."""

import itertools

import pytest

from manilla.people.roles import ConsoleRole, Permission, permissions_of
from manilla.services import Services
from manilla.web.routes import SIGNED_IN, Route
from tests.console.conftest import SCRIPT, PopulatedConsole
from tests.support.client import Reply, Site
from tests.web import markup
from tests.web.route_urls import address, shown
from tests.web.signed_in_user import member

SIGN_IN = "/console/sign-in"
# With these permissions, read-only users may send some POST requests.
LOOKING = (Permission.CONSOLE_VIEW, Permission.SUPPORT_TOOLS)


async def test_every_page_requires_a_session(
    table: list[Route], populated: PopulatedConsole, site: Site
) -> None:
    for route in table:
        if route.is_public:
            continue
        target = "/console" + address(route, populated.samples)
        reply = await site.send(route.method, target, {"Content-Length": "0"})
        assert reply.status == 303, shown(route)
        assert reply.headers["location"].startswith(SIGN_IN), shown(route)


async def test_a_merchant_users_session_is_not_valid_in_the_console(
    table: list[Route], populated: PopulatedConsole, site: Site, services: Services
) -> None:
    visitor = await member(services, site, populated.merchant.new.id)
    for route in table:
        if route.is_public or route.method == "POST":
            continue
        target = "/console" + address(route, populated.samples)
        cookie = f"manilla_console={visitor.token}; manilla_dashboard={visitor.token}"
        reply = await site.send("GET", target, {"Cookie": cookie})
        assert reply.headers["location"].startswith(SIGN_IN), shown(route)


@pytest.mark.parametrize("role", ConsoleRole)
async def test_a_role_without_the_permission_is_rejected(
    table: list[Route], populated: PopulatedConsole, role: ConsoleRole
) -> None:
    visitor = populated.people[role]
    csrf = await visitor.csrf()
    for route in table:
        if route.needs in (None, SIGNED_IN) or route.needs in permissions_of(role):
            continue
        target = address(route, populated.samples)
        reply = (
            await visitor.get(target)
            if route.method == "GET"
            else await visitor.post(target, {}, csrf=csrf)
        )
        assert reply.status == 403, f"{role}: {shown(route)} {reply.status}"


@pytest.mark.parametrize(
    "role",
    [
        ConsoleRole.SUPPORT,
        *(
            pytest.param(role, marks=pytest.mark.long)
            for role in ConsoleRole
            if role != ConsoleRole.SUPPORT
        ),
    ],
)
async def test_a_role_with_the_permission_can_open_the_page(
    table: list[Route], populated: PopulatedConsole, role: ConsoleRole
) -> None:
    """Checks only GET routes, for every role. Other tests submit the forms."""
    visitor = populated.people[role]
    for route in table:
        if route.method == "GET" and route.needs in permissions_of(role):
            reply = await visitor.get(address(route, populated.samples))
            assert reply.status != 403, f"{role}: {shown(route)}"


async def test_support_can_change_nothing(table: list[Route]) -> None:
    """A support user's POST requests change nothing, except for that user's own account."""
    may = permissions_of(ConsoleRole.SUPPORT)
    sent = [r for r in table if r.method == "POST" and r.needs in may]
    assert all(route.needs in LOOKING for route in sent)
    seen = [shown(r) for r in sent if r.needs is Permission.CONSOLE_VIEW]
    assert seen == ["POST /audit/verify", "POST /margin/try"]


async def test_a_form_from_another_site_is_rejected(
    table: list[Route], populated: PopulatedConsole
) -> None:
    neighbours = await populated.people[ConsoleRole.SUPPORT].csrf()
    forged = itertools.cycle(("", "0" * 64, neighbours))
    for route in table:
        if route.method == "POST":
            target = address(route, populated.samples)
            reply = await populated.administrator.post(target, {}, csrf=next(forged))
            assert reply.status == 403, shown(route)
            assert b"did not come from this site" in reply.body, shown(route)


@pytest.fixture(scope="module")
async def opened(table: list[Route], populated: PopulatedConsole) -> list[tuple[Route, Reply]]:
    """Returns every route that can be opened, and the response that an administrator gets."""
    return [
        (route, await populated.administrator.get(address(route, populated.samples)))
        for route in table
        if route.method == "GET"
    ]


async def test_user_input_is_never_run_as_a_script(opened: list[tuple[Route, Reply]]) -> None:
    for route, reply in opened:
        assert reply.status in (200, 303, 404), f"{shown(route)}: {reply.status}"
        assert b"<script>stolen" not in reply.body, shown(route)
        assert b"<img src=x" not in reply.body, shown(route)
        assert SCRIPT.encode() not in reply.body, shown(route)


async def test_every_page_has_labels_names_and_one_heading(
    opened: list[tuple[Route, Reply]],
) -> None:
    for route, reply in opened:
        if route.is_page and reply.status == 200:
            assert not markup.problems(reply.body.decode()), shown(route)
