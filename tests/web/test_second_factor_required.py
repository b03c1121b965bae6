"""A password alone is not sufficient to move a merchant's money or to use the console."""

import re
import secrets
from collections.abc import AsyncIterator

import msgspec
import pyotp
import pytest

from manilla.console import routes as console
from manilla.dashboard import routes as dashboard
from manilla.kit.changes import ChangeWatch
from manilla.kit.environment import Environment
from manilla.pages import app as pages
from manilla.people import second_factor
from manilla.people.roles import Role
from manilla.platform import settings
from manilla.platform.settings import CurrentSettings, PlatformSettings
from manilla.services import Services
from manilla.web.routes import Route
from tests.conftest import serving
from tests.support.client import Merchant, Site, new_merchant
from tests.web.money_routes import DASHBOARD, Effect
from tests.web.route_urls import shown
from tests.web.signed_in_user import PASSWORD, SignedInUser, administrator, member

NEEDED = b"Second factor required"
# No object has these parameter values, so a permitted request gets 404.
NOWHERE = {"trx_id": "TXN0", "batch": "none", "person": "1", "session": "1", "currency": "NGN"}
NOWHERE |= {"approval": "1", "account": "1", "dispute": "DSP0"}
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')


@pytest.fixture(scope="module")
async def production(services: Services) -> AsyncIterator[Site]:
    platform = CurrentSettings(services.db, ChangeWatch(services.db), is_development=False)
    real = msgspec.structs.replace(services, is_development=False, platform=platform)
    asgi = pages.build(real, [dashboard.build(real), console.build(real)])
    async with serving(asgi) as port:
        yield Site(port)


@pytest.fixture(scope="module")
async def merchant(site: Site, services: Services) -> Merchant:
    return await new_merchant(site, services.db, services.keyring)


async def _owner(services: Services, production: Site) -> SignedInUser:
    merchant = await new_merchant(production, services.db, services.keyring)
    return await member(services, production, merchant.new.id, Role.OWNER)


async def _generations(services: Services, person_id: int) -> int:
    number: int = await services.db.value(
        """
        SELECT count(*) FROM credential c JOIN membership m USING (merchant_id)
         WHERE m.person_id = $1 AND c.environment = $2""",
        person_id,
        Environment.PRODUCTION,
    )
    return number


def new_email() -> str:
    return f"{secrets.token_hex(4)}@console.example"


def _fields(text: str) -> dict[str, str]:
    return {name: value for name, value in _HIDDEN.findall(text) if name != "csrf"}


def _address(route: Route, environment: str) -> str:
    path = route.path.replace("{environment:str}", environment)
    return re.sub(r"\{([a-z_]+):[a-z]+\}", lambda found: NOWHERE[found.group(1)], path)


def test_the_requirement_is_on_in_production_mode_and_off_in_development_mode() -> None:
    def value(*, is_development: bool) -> str:
        rows = settings.describe(PlatformSettings(), is_development=is_development)
        return next(row.value for row in rows if row.key == "second_factor_for_money")

    assert (value(is_development=False), value(is_development=True)) == ("true", "false")


async def test_a_password_alone_moves_no_money(services: Services, production: Site) -> None:
    owner = await _owner(services, production)
    await owner.step_up(services)
    csrf = await owner.csrf()
    for route in dashboard.ROUTES:
        effect = DASHBOARD[shown(route)]
        if effect in (Effect.NOTHING, Effect.OWN):
            continue
        reply = await owner.post(_address(route, "production"), {}, csrf=csrf)
        assert (reply.status, NEEDED in reply.body) == (403, True), shown(route)


async def test_saved_accounts_require_it_in_the_sandbox_and_sandbox_money_does_not(
    services: Services, production: Site
) -> None:
    """An account that was saved in the sandbox can also receive payouts in production."""
    owner = await _owner(services, production)
    await owner.step_up(services)
    assert NEEDED in (await owner.post("/sandbox/accounts", {"method": "1"})).body
    rotated = await owner.post("/sandbox/credentials/rotate", {"overlap_minutes": "0"})
    assert (rotated.status, b"API secret" in rotated.body) == (200, True)


async def test_a_user_without_one_enrolls_and_then_completes_the_action(
    services: Services, production: Site
) -> None:
    owner = await _owner(services, production)
    before = await _generations(services, owner.person_id)
    path, wish = "/production/credentials/rotate", {"overlap_minutes": "60"}
    needed = await owner.post(path, wish)
    assert NEEDED in needed.body
    carried = _fields(needed.body.decode())
    assert carried == {"onward": f"/dashboard{path}", "kept.overlap_minutes": "60"}
    asked = await owner.post("/account/second-factor", carried)
    assert b"Your password" in asked.body
    begun = await owner.post(
        "/account/second-factor", {**_fields(asked.body.decode()), "step_up_secret": PASSWORD}
    )
    fields = _fields(begun.body.decode())
    code = pyotp.TOTP(fields["secret"]).now()
    codes = await owner.post("/account/second-factor/confirm", {**fields, "code": code})
    assert b"Recovery codes" in codes.body
    assert f'action="/dashboard{path}"'.encode() in codes.body
    assert await _generations(services, owner.person_id) == before
    done = await owner.post(path, _fields(codes.body.decode()))
    assert (done.status, b"API secret" in done.body) == (200, True)
    assert await _generations(services, owner.person_id) == before + 1


async def test_a_session_that_stepped_up_by_password_must_enter_a_code(
    services: Services, production: Site, site: Site
) -> None:
    """After the step-up, the user has enrolled a second factor in another browser."""
    owner = await _owner(services, production)
    app_ = await owner.enroll(services)
    await owner.step_up(services)
    await services.db.execute(
        "UPDATE session SET second_factor = false WHERE person_id = $1", owner.person_id
    )
    path, wish = "/production/credentials/rotate", {"overlap_minutes": "0"}
    asked = await owner.post(path, wish)
    assert b"Code from your authenticator app" in asked.body
    wrong = await owner.post(path, {**wish, "step_up_secret": PASSWORD})
    assert wrong.status == 403
    done = await owner.post(path, {**wish, "step_up_secret": app_.now()})
    assert (done.status, b"API secret" in done.body) == (200, True)


async def test_disabling_ones_own_second_factor_ends_every_session(
    services: Services, production: Site
) -> None:
    owner = await _owner(services, production)
    await owner.enroll(services)
    await owner.step_up(services)
    reply = await owner.post("/account/second-factor/off", {})
    assert (reply.status, reply.location) == (303, "/dashboard/sign-in")
    assert (await owner.get("/account")).location.startswith("/dashboard/sign-in")


async def test_disabling_it_ends_the_users_console_sessions(
    services: Services, production: Site
) -> None:
    visitor = await administrator(services, production, new_email())
    await visitor.enroll(services)
    assert (await visitor.get("/merchants")).status == 200
    await second_factor.remove(services.db, visitor.person_id)
    assert (await visitor.get("/merchants")).location.startswith("/console/sign-in")


async def test_a_console_session_without_it_can_only_enroll(
    services: Services, production: Site
) -> None:
    visitor = await administrator(services, production, new_email())
    await visitor.step_up(services)
    csrf = await visitor.csrf()
    for route in console.ROUTES:
        if route.is_public or route.enrolls or "{" in route.path:
            continue
        reply = (
            await visitor.get(route.path)
            if route.method == "GET"
            else await visitor.post(route.path, {}, csrf=csrf)
        )
        assert reply.status == 403, shown(route)
        assert b"second factor is required" in reply.body, shown(route)
    assert (await visitor.post("/account/second-factor", {})).status == 200


async def test_a_removed_second_factor_is_noticed_at_the_next_request(
    services: Services, production: Site
) -> None:
    """The session's flag for a verified second factor is ignored after the factor's removal."""
    visitor = await administrator(services, production, new_email())
    await visitor.enroll(services)
    await visitor.step_up(services)
    await services.db.execute(
        """
        UPDATE person SET totp_sealed = NULL, totp_confirmed_at = NULL, recovery_hashes = '{}'
         WHERE id = $1""",
        visitor.person_id,
    )
    assert (await visitor.get("/merchants")).status == 403
    asked = await visitor.post("/settings/kyc_required", {"value": "on"})
    assert (asked.status, b"Your password" in asked.body) == (403, False)
