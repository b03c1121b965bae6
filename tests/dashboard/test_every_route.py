"""Rules that every route of the dashboard must follow, including new routes."""

import itertools
import re

import pytest

from manilla.people.roles import ConsoleRole, Role, permissions_of
from manilla.services import Services
from manilla.web.routes import SIGNED_IN, Route
from tests.dashboard.conftest import SCRIPT, PopulatedMerchant
from tests.support.client import Reply, Site
from tests.web import markup
from tests.web.route_urls import address, parameters, shown
from tests.web.signed_in_user import administrator

SIGN_IN = "/dashboard/sign-in"
# These route parameters identify an object that belongs to one merchant.
BELONGINGS = {
    "trx_id",
    "payout",
    "refund",
    "notification",
    "endpoint",
    "person",
    "invitation",
    "session",
    "account",
    "batch",
    "approval",
}


async def test_every_page_requires_a_session(
    table: list[Route], populated: PopulatedMerchant, site: Site
) -> None:
    for route in table:
        if route.is_public:
            continue
        target = "/dashboard" + address(route, populated.samples)
        reply = await site.send(route.method, target, {"Content-Length": "0"})
        assert reply.status == 303, shown(route)
        assert reply.headers["location"].startswith(SIGN_IN), shown(route)


async def test_an_administrators_session_is_not_valid_in_the_dashboard(
    table: list[Route], populated: PopulatedMerchant, site: Site, services: Services
) -> None:
    visitor = await administrator(
        services, site, "every@console.example", ConsoleRole.ADMINISTRATOR
    )
    for route in table:
        if route.is_public or route.method == "POST":
            continue
        target = "/dashboard" + address(route, populated.samples)
        cookie = f"manilla_console={visitor.token}; manilla_dashboard={visitor.token}"
        reply = await site.send("GET", target, {"Cookie": cookie})
        assert reply.headers["location"].startswith(SIGN_IN), shown(route)


@pytest.mark.parametrize("role", Role)
async def test_a_role_without_the_permission_is_rejected(
    table: list[Route], populated: PopulatedMerchant, role: Role
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
        Role.VIEWER,
        *(pytest.param(role, marks=pytest.mark.long) for role in Role if role != Role.VIEWER),
    ],
)
async def test_a_role_with_the_permission_can_open_the_page(
    table: list[Route], populated: PopulatedMerchant, role: Role
) -> None:
    """Checks only GET routes, for every role. Other tests submit the forms."""
    visitor = populated.people[role]
    for route in table:
        if route.method == "GET" and route.needs in permissions_of(role):
            reply = await visitor.get(address(route, populated.samples))
            assert reply.status != 403, f"{role}: {shown(route)}"


async def test_a_form_from_another_site_is_rejected(
    table: list[Route], populated: PopulatedMerchant
) -> None:
    neighbours = await populated.people[Role.VIEWER].csrf()
    forged = itertools.cycle(("", "0" * 64, neighbours))
    for route in table:
        if route.method == "POST":
            target = address(route, populated.samples)
            reply = await populated.owner.post(target, {}, csrf=next(forged))
            assert reply.status == 403, shown(route)
            assert b"did not come from this site" in reply.body, shown(route)


async def test_another_merchants_objects_are_not_found(
    table: list[Route],
    populated: PopulatedMerchant,
    other_merchant: PopulatedMerchant,
    services: Services,
) -> None:
    """An object of another merchant or environment gets the same 404 as an unknown object."""
    await populated.owner.step_up(services)
    csrf = await populated.owner.csrf()
    theirs = {
        **populated.samples,
        **{k: other_merchant.samples[k] for k in BELONGINGS & set(other_merchant.samples)},
    }
    elsewhere = {**populated.samples, "environment": "production"}
    for route in table:
        owned = BELONGINGS & set(parameters(route))
        for samples in (theirs, elsewhere) if owned and not route.is_public else ():
            if samples is elsewhere and "environment" not in parameters(route):
                continue
            target = address(route, samples)
            reply = (
                await populated.owner.get(target)
                if route.method == "GET"
                else await populated.owner.post(target, {"role": "owner"}, csrf=csrf)
            )
            assert reply.status == 404, f"{shown(route)}: {reply.status}"


@pytest.fixture(scope="module")
async def opened(table: list[Route], populated: PopulatedMerchant) -> list[tuple[Route, Reply]]:
    """Returns every route that can be opened, and the response that the owner gets."""
    return [
        (route, await populated.owner.get(address(route, populated.samples)))
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


async def test_every_link_leads_to_a_page(
    opened: list[tuple[Route, Reply]], populated: PopulatedMerchant
) -> None:
    found = {
        link: shown(route)
        for route, reply in opened
        if route.is_page and reply.status == 200
        for link in re.findall(r'<a[^>]* href="/dashboard(/[^"#?]*)', reply.body.decode())
    }
    for link, page in found.items():
        reply = await populated.owner.get(link)
        assert reply.status in (200, 303), f"{link} on {page}: {reply.status}"
