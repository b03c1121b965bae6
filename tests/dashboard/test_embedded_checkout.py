"""Merchants enter the origins of the pages that may show checkout in a frame."""

import html
import json

import pytest

from manilla.kit.environment import Environment
from manilla.merchants import checkout_origins
from manilla.people.roles import Role
from manilla.services import Services
from manilla.web.embed import checkout_script
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.support.client import Site
from tests.web.signed_in_user import member

SANDBOX, PRODUCTION = "/sandbox/embedded-checkout", "/production/embedded-checkout"


@pytest.fixture
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def saved(dashboard: MerchantDashboard, environment: Environment) -> tuple[str, ...]:
    db, merchant_id = dashboard.services.db, dashboard.merchant.new.id
    return await checkout_origins.read(db, merchant_id, environment)


async def test_origins_are_saved_for_one_environment_and_audited(
    dashboard: MerchantDashboard,
) -> None:
    text = "https://shop.example/\r\nhttp://localhost:3000\r\n"
    reply = await dashboard.owner.post(SANDBOX, {"origins": text})
    assert reply.status == 303
    origins = ("https://shop.example", "http://localhost:3000")
    assert await saved(dashboard, Environment.SANDBOX) == origins
    assert await saved(dashboard, Environment.PRODUCTION) == ()
    assert "\n".join(origins) in (await dashboard.owner.get(SANDBOX)).body.decode()
    await dashboard.owner.post(SANDBOX, {"origins": ""})
    assert await saved(dashboard, Environment.SANDBOX) == ()
    rows = await dashboard.services.db.records(
        "SELECT detail FROM audit WHERE merchant_id = $1"
        " AND action = 'merchant.checkout_origins' ORDER BY id",
        dashboard.merchant.new.id,
    )
    changes = [json.loads(row["detail"])["changed"]["checkout_origins"] for row in rows]
    assert changes == [
        {"before": [], "after": list(origins)},
        {"before": list(origins), "after": []},
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (SANDBOX, "https://shop.example/cart"),
        (SANDBOX, "http://shop.example"),
        (PRODUCTION, "http://localhost:3000"),
        (SANDBOX, "\n".join(f"https://shop{number}.example" for number in range(21))),
    ],
)
async def test_a_list_with_a_bad_origin_is_shown_again_and_not_saved(
    dashboard: MerchantDashboard, path: str, text: str
) -> None:
    reply = await dashboard.owner.post(path, {"origins": text})
    assert reply.status == 422
    assert 'id="h-origins"' in reply.body.decode()
    assert html.escape(text) in reply.body.decode()
    assert await saved(dashboard, Environment.SANDBOX) == ()


async def test_origins_are_changed_only_by_owners_and_developers_who_confirm_their_identity(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    merchant_id = dashboard.merchant.new.id
    form = {"origins": "https://shop.example"}
    for role in (Role.FINANCE, Role.VIEWER):
        user = await member(services, site, merchant_id, role)
        await user.step_up(services)
        assert (await user.get(SANDBOX)).status == 200
        assert (await user.post(SANDBOX, form)).status == 403
    developer = await member(services, site, merchant_id, Role.DEVELOPER)
    assert (await developer.post(SANDBOX, form)).status != 303
    assert await saved(dashboard, Environment.SANDBOX) == ()
    await developer.step_up(services)
    assert (await developer.post(SANDBOX, form)).status == 303
    assert await saved(dashboard, Environment.SANDBOX) == ("https://shop.example",)


async def test_the_page_shows_the_element_that_loads_the_script(
    dashboard: MerchantDashboard,
) -> None:
    page = html.unescape((await dashboard.owner.get(SANDBOX)).body.decode())
    assert checkout_script.tag(dashboard.services.base_url) in page
