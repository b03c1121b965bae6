"""Checks for every route which roles can move money, directly or with the returned data.

These tests fail for a new route until `money_routes.py` lists its effect.
"""

import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping

import msgspec
import pytest

from manilla.console import routes as console
from manilla.dashboard import routes as dashboard
from manilla.kit.environment import Environment
from manilla.mail.hook import HookTransport
from manilla.pages import app as pages
from manilla.people.roles import ConsoleRole, Role, permissions_of
from manilla.services import Services
from manilla.web.routes import SIGNED_IN, Route
from tests.conftest import serving
from tests.mail.outbox_reader import letters_to
from tests.support.client import Merchant, Site, new_merchant
from tests.web.money_routes import CONSOLE, DASHBOARD, ROLES, Effect
from tests.web.route_urls import shown
from tests.web.signed_in_user import SignedInUser, administrator, member

ROTATE = {"overlap_minutes": "60"}


@pytest.fixture(scope="module")
async def merchant(site: Site, services: Services) -> Merchant:
    return await new_merchant(site, services.db, services.keyring)


@pytest.fixture(scope="module")
async def people(services: Services, site: Site, merchant: Merchant) -> dict[Role, SignedInUser]:
    return {role: await member(services, site, merchant.new.id, role) for role in Role}


def _tables(services: Services) -> list[tuple[list[Route], Mapping[str, Effect], list[str]]]:
    return [
        (dashboard.ROUTES, DASHBOARD, list(Role)),
        (console.ROUTES, CONSOLE, list(ConsoleRole)),
    ]


def _may_in_production(route: Route, role: str) -> bool:
    needed = {route.needs, route.needs_in_production} - {None, SIGNED_IN}
    return needed <= permissions_of(role)


async def test_every_route_has_a_listed_effect(services: Services) -> None:
    for table, effects, _ in _tables(services):
        assert {shown(route) for route in table} == set(effects)


async def test_an_effect_in_production_is_limited_to_its_roles(services: Services) -> None:
    for table, effects, roles in _tables(services):
        for route in table:
            effect = effects[shown(route)]
            if effect is Effect.NOTHING:
                continue
            reached_by = {role for role in roles if _may_in_production(route, role)}
            assert reached_by == ROLES[effect] & set(roles), shown(route)


async def test_every_effect_needs_a_form_and_a_step_up(services: Services) -> None:
    for table, effects, _ in _tables(services):
        for route in table:
            if effects[shown(route)] is not Effect.NOTHING:
                assert (route.method, route.step_up) == ("POST", True), shown(route)


async def test_a_route_that_checks_its_form_first_asks_for_the_confirmation_itself(
    services: Services,
) -> None:
    for table, _, _ in _tables(services):
        for route in table:
            calls = "confirm_identity" in route.handler.__code__.co_names
            assert calls == route.checks_first, shown(route)
            assert route.step_up or not route.checks_first, shown(route)


@pytest.mark.parametrize("role", [Role.DEVELOPER, Role.FINANCE, Role.VIEWER])
async def test_only_an_owner_sees_production_keys(
    people: dict[Role, SignedInUser], services: Services, merchant: Merchant, role: Role
) -> None:
    visitor = people[role]
    await visitor.step_up(services)
    before = await _generations(services, merchant, Environment.PRODUCTION)
    reply = await visitor.post("/production/credentials/rotate", ROTATE)
    assert reply.status == 403
    assert b"API secret" not in reply.body
    assert await _generations(services, merchant, Environment.PRODUCTION) == before
    assert b"credentials/rotate" not in (await visitor.get("/production/credentials")).body


async def test_a_developer_rotates_the_sandbox_keys(
    people: dict[Role, SignedInUser], services: Services
) -> None:
    developer = people[Role.DEVELOPER]
    await developer.step_up(services)
    assert b"credentials/rotate" in (await developer.get("/sandbox/credentials")).body
    reply = await developer.post("/sandbox/credentials/rotate", ROTATE)
    assert (reply.status, b"whsec_" in reply.body) == (200, True)


async def test_the_explorer_cannot_call_production(people: dict[Role, SignedInUser]) -> None:
    for role in (Role.OWNER, Role.DEVELOPER):
        reply = await people[role].post("/production/explorer", {"operation": "initiatePayout"})
        assert reply.status == 404, role


async def test_only_owners_are_notified_of_a_key_rotation(services: Services, site: Site) -> None:
    mine = await new_merchant(site, services.db, services.keyring)
    developer = await member(services, site, mine.new.id, Role.DEVELOPER)
    owner = await member(services, site, mine.new.id, Role.OWNER)
    async with _served(services) as there:
        rotating = msgspec.structs.replace(developer, site=there)
        await rotating.step_up(services)
        assert (await rotating.post("/sandbox/credentials/rotate", ROTATE)).status == 200
    [letter] = await letters_to(services.db, services.letters, owner.email)
    assert letter.kind == "keys_rotated"
    text = " ".join(letter.text.split())
    assert f"{developer.email} rotated the sandbox API keys of Ada Stores." in text
    assert letter.link.endswith("/dashboard/sandbox/credentials")
    assert not await letters_to(services.db, services.letters, developer.email)
    notice = f"{developer.email} rotated the sandbox API keys".encode()
    assert notice in (await owner.get("/production")).body
    assert notice not in (await developer.get("/production")).body
    lines = await services.db.value(
        "SELECT count(*) FROM audit WHERE action = 'merchant.rotate' AND merchant_id = $1",
        mine.new.id,
    )
    assert lines == 1


async def test_in_production_mode_the_console_never_shows_production_keys(
    services: Services, site: Site
) -> None:
    hook = HookTransport("/bin/false")
    real = msgspec.structs.replace(services, is_development=False, mail_transport=hook)
    asgi = pages.build(real, [console.build(real)])
    visitor = await administrator(
        services, site, f"{secrets.token_hex(4)}@console.example", ConsoleRole.OPERATIONS
    )
    await visitor.enroll(services)
    await visitor.step_up(services)
    async with serving(asgi) as port:
        there = msgspec.structs.replace(visitor, site=Site(port))
        wish = {"name": "Bola", "email": "bola@example.com", "currency": "NGN", "status": "pending"}
        reply = await there.post("/merchants/new", wish)
    assert (reply.status, b"API secret" in reply.body) == (200, True)
    created = await services.db.value("SELECT max(id) FROM merchant")
    production = await services.db.value(
        "SELECT merchant_key FROM merchant_key WHERE merchant_id = $1 AND environment = $2",
        created,
        Environment.PRODUCTION,
    )
    assert production.encode() not in reply.body
    letter = (await letters_to(services.db, services.letters, "bola@example.com"))[-1]
    assert (letter.kind, letter.subject) == ("invitation", "Invitation to Bola")
    assert letter.link.encode() not in reply.body


@contextlib.asynccontextmanager
async def _served(services: Services) -> AsyncIterator[Site]:
    async with serving(pages.build(services, [dashboard.build(services)])) as port:
        yield Site(port)


async def _generations(services: Services, merchant: Merchant, environment: Environment) -> int:
    number: int = await services.db.value(
        "SELECT count(*) FROM credential WHERE merchant_id = $1 AND environment = $2",
        merchant.new.id,
        environment,
    )
    return number
