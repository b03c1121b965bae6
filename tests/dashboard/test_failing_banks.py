"""Before a payout, the dashboard warns if transfers to the beneficiary's bank are failing."""

from collections.abc import AsyncIterator

import pytest

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.payouts import attempts
from manilla.routing import deliveries
from manilla.routing.outcomes import Outcomes
from manilla.services import Services
from tests.dashboard.bulk_upload import GTBANK, HEADER, upload
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard, redirect_target
from tests.payouts.payout_merchant import new_account, new_reference
from tests.support.client import Site
from tests.support.provider_simulator import forget_outcomes, running_simulator

NEW, BULK = "/production/payouts/new", "/production/payouts/bulk"
FAILING = "Transfers to Guaranty Trust Bank have been failing on {} since "
PROVIDERS = ("providera", "providerb", "providerc")


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> AsyncIterator[MerchantDashboard]:
    async with running_simulator(services):
        made = await new_dashboard(services, site)
        money = Money.of("100000", "NGN")
        await wallets.fund(services.db, made.merchant.new.id, Environment.PRODUCTION, money, "test")
        yield made
    # Delete the learned bank codes, because other tests expect that there are none.
    services.banks._kept.clear()
    await services.db.execute("DELETE FROM provider_bank")
    await services.registry.load()


@pytest.fixture(autouse=True)
async def forgotten(services: Services) -> AsyncIterator[None]:
    await forget_outcomes(services)
    yield
    await forget_outcomes(services)


async def fail(services: Services, *providers: str) -> None:
    for provider in providers:
        await deliveries._add(services.db, (provider, GTBANK), Outcomes(failed=3))
    services.deliveries._read_again_at = 0.0


async def review(dashboard: MerchantDashboard, code: str) -> str:
    fields = {"method": str(await _method(dashboard, code)), "bank_code": GTBANK}
    fields |= {"account_number": new_account(), "amount": "1000", "once": new_reference()}
    reply = await dashboard.owner.post(NEW, fields)
    assert b"Review payout" in reply.body, reply.body
    return reply.body.decode()


async def _method(dashboard: MerchantDashboard, code: str) -> int:
    number: int = await dashboard.services.db.value("SELECT id FROM method WHERE code = $1", code)
    return number


async def test_the_review_warns_about_the_providers_own_method(
    dashboard: MerchantDashboard,
) -> None:
    assert "have been failing" not in await review(dashboard, "providera_ngn_transfer")
    await fail(dashboard.services, "providera")
    page = await review(dashboard, "providera_ngn_transfer")
    assert FAILING.format("Provider A") in page
    assert "Pay " in page  # The user can still confirm the payout in spite of the warning.


async def test_the_automatic_method_warns_only_if_every_rail_fails(
    dashboard: MerchantDashboard,
) -> None:
    await fail(dashboard.services, *PROVIDERS[:2])
    assert "have been failing" not in await review(dashboard, "auto_ngn")
    await fail(dashboard.services, PROVIDERS[2])
    assert FAILING.format("all rails") in await review(dashboard, "auto_ngn")


async def test_the_form_warns_while_the_account_is_typed(dashboard: MerchantDashboard) -> None:
    await fail(dashboard.services, *PROVIDERS)
    query = f"method={await _method(dashboard, 'auto_ngn')}&bank_code={GTBANK}"
    reply = await dashboard.owner.get(f"{NEW}/name?{query}&account_number={new_account()}")
    assert FAILING.format("all rails") in reply.body.decode()


async def test_the_page_of_a_file_warns_once_for_each_bank(dashboard: MerchantDashboard) -> None:
    await fail(dashboard.services, *PROVIDERS)
    rows = [f"1000,{bank},{new_account()},,," for bank in (GTBANK, "GTBank", "044")]
    content = "\n".join([HEADER, *rows]).encode()
    for code, where in (("auto_ngn", "all rails"), ("providera_ngn_transfer", "Provider A")):
        reply = await upload(dashboard, content, await _method(dashboard, code), BULK)
        page = (await dashboard.owner.get(redirect_target(reply))).body.decode()
        assert page.count(FAILING.format(where)) == 1
        assert page.count("have been failing") == 1


async def test_the_automatic_method_comes_first(dashboard: MerchantDashboard) -> None:
    page = (await dashboard.owner.get(NEW)).body.decode()
    automatic = await _method(dashboard, "auto_ngn")
    assert f'name="method" value="{automatic}"' in page  # the form for the beneficiary comes first
    others = page.index("Other payout methods")
    assert page.index('name="account_number"') < others < page.index("Provider A bank transfer")
    upload_form = (await dashboard.owner.get(BULK)).body.decode()
    first = upload_form.index("<option")
    assert upload_form[first:].split("</option>")[0].endswith(">Automatic bank transfer")


async def test_a_payout_that_moved_shows_its_routes_in_plain_words(
    dashboard: MerchantDashboard,
) -> None:
    db, method = dashboard.services.db, str(await _method(dashboard, "auto_ngn"))
    fields = {"method": method, "bank_code": GTBANK, "account_number": new_account()}
    fields |= {"amount": "1000", "once": new_reference()}
    made = redirect_target(await dashboard.owner.post("/production/payouts", fields))
    trx_id = made.rsplit("/", 1)[1]
    await attempts.adopt(db, dashboard.merchant.new.id, trx_id, "providerb")
    await db.execute(
        "UPDATE payout_attempt SET ended_as = 'rejected', dead_because = $2"
        " WHERE trx_id = $1 AND number = 1",
        *(trx_id, "raw text"),
    )
    page = (await dashboard.owner.get(made)).body.decode()
    assert "Provider A bank transfer: rejected the transfer" in page
    assert "Provider B bank transfer: current route" in page
    assert "The bank transfer went by a different route than we had recorded." in page
    assert "Guaranty Trust Bank (058)" in page
    for hidden in ("raw text", "providera", "providerb", "comes later"):
        assert hidden not in page
