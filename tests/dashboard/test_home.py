"""The dashboard's home page: latest payments, pending money, required actions, and volume."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from manilla.kit.clock import last_days
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.ledger.daily import DailyFigures
from manilla.ledger.scope import Tenant
from manilla.services import Services
from manilla.web import volume
from manilla.web.volume import ComparedVolume
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.dashboard.sample_data import create_sample_data
from tests.payments.orders import INITIATE, new_reference, order
from tests.support.client import Site, new_merchant
from tests.web.signed_in_user import member


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    created = await new_dashboard(services, site)
    await create_sample_data(services, created.merchant, "Ada")
    await created.pay_in()
    return created


async def home(dashboard: MerchantDashboard, query: str = "") -> str:
    reply = await dashboard.owner.get(f"/sandbox{query}")
    assert reply.status == 200, reply.body
    return reply.body.decode()


async def test_home_shows_latest_payments_and_money_on_its_way(
    dashboard: MerchantDashboard,
) -> None:
    references = [new_reference() for _ in range(6)]
    for reference in references:
        await dashboard.pay_in(ref_trx=reference)
    page = await home(dashboard)
    assert all(reference in page for reference in references[1:])
    assert references[0] not in page
    assert "1 pending payout" in page
    assert "₦1,000.00" in page


async def test_the_checklist_disappears_after_the_first_production_payment(
    services: Services, site: Site
) -> None:
    environment = Environment.PRODUCTION
    merchant = await new_merchant(site, services.db, services.keyring, environment=environment)
    owner = await member(services, site, merchant.new.id)
    for expected in (True, False):
        page = (await owner.get("/production")).body.decode()
        assert ("Getting started" in page) is expected
        assert (await merchant.post(INITIATE, order())).status == 200


async def test_bulk_rows_that_were_not_paid_need_attention(services: Services, site: Site) -> None:
    dashboard = await new_dashboard(services, site)
    samples = await create_sample_data(services, dashboard.merchant, "Ada")
    assert "rows that were not paid" not in await home(dashboard)
    await services.db.execute(
        "UPDATE payout_batch SET status = 'done', confirmed_by = 'ada' WHERE id = $1",
        samples["batch"],
    )
    await services.db.execute(
        "UPDATE payout_batch_row SET state = 'refused' WHERE batch_id = $1", samples["batch"]
    )
    assert "1 bulk payout file has rows that were not paid" in await home(dashboard)


async def test_the_chart_shows_the_chosen_figure_by_day(dashboard: MerchantDashboard) -> None:
    for name, label in (
        ("", "Paid in"),
        ("paid_out", "Paid out"),
        ("success_rate", "Success rate"),
    ):
        for period, days in (("7days", 7), ("90days", 90)):
            page = await home(dashboard, f"?period={period}&show={name}")
            assert f'role="img" aria-label="{label} by day' in page
            assert page.count("<tr><td>") == days  # The table shows the same figures as the chart.
            assert "Figures by day" in page


async def test_figures_and_chart_come_before_attention_and_lists(
    dashboard: MerchantDashboard,
) -> None:
    page = await home(dashboard)
    parts = ['class="figures"', 'class="chart"', "Money on its way", "Latest payments"]
    assert sorted(parts, key=page.index) == parts


async def test_volume_is_compared_with_the_period_before(services: Services, site: Site) -> None:
    dashboard = await new_dashboard(services, site)
    tenant = Tenant(dashboard.merchant.new.id, Environment.SANDBOX)
    await dashboard.pay_in(payment_amount=1500)
    async with earlier(services, await dashboard.pay_in(payment_amount=1000), days=10):
        week = await volume.volume(services.db, tenant, "NGN", "7days")
        assert week.paid_in.change == "50 % more than before (₦1,000.00)"
        month = await volume.volume(services.db, tenant, "NGN", "30days")
        assert month.paid_in.change == "No volume in the previous period"
        assert "50 % more" in await home(dashboard, "?period=7days")


@asynccontextmanager
async def earlier(services: Services, trx_id: str, *, days: int) -> AsyncIterator[None]:
    """Moves a payment to an earlier day until the end of the `with` block."""
    moment = trx_ids.moment_of(trx_id)
    assert moment is not None
    moved = trx_ids.floor(moment - timedelta(days=days)) + trx_id[13:]
    change = "UPDATE payment SET trx_id = $2 WHERE trx_id = $1"
    await services.db.execute(change, trx_id, moved)
    yield
    await services.db.execute(change, moved, trx_id)


def test_a_change_is_described_in_words_and_figures() -> None:
    def compared(now: int, before: int) -> str:
        day = last_days(1)[0]
        figures = [DailyFigures(day, "NGN", 1, 1, 0, minor) for minor in (now, before)]
        return ComparedVolume("NGN", figures[:1], figures[1:]).change

    assert compared(5000, 10_000) == "50 % less than before (₦100.00)"
    assert compared(100, 100) == "Same as before (₦1.00)"
    assert compared(0, 0) == "No volume, as in the previous period"
