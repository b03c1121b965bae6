"""If a payout file exceeds the wallet's balance, rows are paid in order, and none is skipped."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations
from tests.dashboard.bulk_upload import BULK, GTBANK, HEADER, draft, upload
from tests.dashboard.merchant_dashboard import (
    MerchantDashboard,
    new_dashboard,
    redirect_target,
    unchunked,
)
from tests.payouts.payout_merchant import new_account, new_reference
from tests.support.client import Site
from tests.support.provider_simulator import running_simulator
from tests.web.signed_in_user import PASSWORD

WALLET = 1_000_000_00  # the balance of a new sandbox merchant


@pytest.fixture
async def dashboard(services: Services, site: Site) -> AsyncIterator[MerchantDashboard]:
    """A new merchant for each test, because the tests depend on its balance."""
    async with running_simulator(services):
        yield await new_dashboard(services, site)


def _row(amount: int | str, account: str = "") -> str:
    return f"{amount},{GTBANK},{account or new_account()},Ada,{new_reference()},July"


async def _too_large(dashboard: MerchantDashboard) -> str:
    """Uploads four rows. The balance covers rows 1 and 2, not row 3, and would cover row 4."""
    return await draft(dashboard, [_row(300_000), _row(400_000), _row(500_000), _row(1_000)])


async def _states(dashboard: MerchantDashboard, batch: str) -> list[str]:
    return [row[1] for row in await dashboard.rows(batch)]


async def test_a_file_larger_than_the_wallet_is_not_paid(
    dashboard: MerchantDashboard,
) -> None:
    batch = await _too_large(dashboard)
    page = (await dashboard.owner.get(batch)).body.decode()
    assert "Top up ₦201,000.00 or remove rows." in page
    assert "Pay ₦1,201,000.00" not in page
    assert "first 2 rows of 4 (₦700,000.00 including fees)" in page

    # The page has no button to confirm the file, and the server rejects the confirmation too.
    reply = await dashboard.owner.post(f"{batch}/confirm", {})
    assert redirect_target(reply) == batch
    await dashboard.run_jobs()
    assert await _states(dashboard, batch) == ["ready"] * 4
    assert await dashboard.balance() == WALLET
    assert "Not confirmed" in (await dashboard.owner.get(BULK)).body.decode()


async def test_paying_part_of_a_file_pays_its_first_rows_and_returns_the_rest(
    dashboard: MerchantDashboard,
) -> None:
    batch = await _too_large(dashboard)
    reply = await dashboard.owner.post(f"{batch}/confirm", {"rows": "2"})
    assert reply.status == 303
    await dashboard.run_jobs()
    assert await _states(dashboard, batch) == ["paid", "paid", "refused", "refused"]
    assert await dashboard.balance() == WALLET - 700_000_00
    assert "2 of 4 paid" in (await dashboard.owner.get(BULK)).body.decode()

    file = unchunked(await dashboard.owner.get(f"{batch}/not-paid")).decode("utf-8-sig")
    header, *rows = csv.reader(io.StringIO(file))
    assert header == HEADER.split(",")
    assert [row[0] for row in rows] == ["500000.00", "1000.00"]
    before = await dashboard.rows(batch)
    assert [row[1:] for row in rows] == [[row[6], *row[8:12]] for row in before[2:]]
    again = redirect_target(await upload(dashboard, file.encode()))
    assert await _states(dashboard, again) == ["ready", "ready"]


async def test_the_file_of_unpaid_rows_keeps_their_purposes(dashboard: MerchantDashboard) -> None:
    rows = [HEADER + ",purpose", _row(1_000) + ",", _row(2_000) + ",salary", _row(500) + ","]
    batch = redirect_target(await upload(dashboard, "\n".join(rows).encode()))
    await dashboard.owner.post(f"{batch}/confirm", {"rows": "1"})
    await dashboard.run_jobs()

    file = unchunked(await dashboard.owner.get(f"{batch}/not-paid")).decode("utf-8-sig")
    unpaid = list(csv.DictReader(io.StringIO(file)))
    assert [(row["amount"], row["purpose"]) for row in unpaid] == [
        ("2000.00", "salary"),
        ("500.00", ""),
    ]
    assert (await upload(dashboard, file.encode())).status == 303


@pytest.mark.parametrize("rows", ["3", "4", "99", "0"])
async def test_only_rows_the_wallet_covers_are_paid(
    dashboard: MerchantDashboard, rows: str
) -> None:
    batch = await _too_large(dashboard)
    await dashboard.owner.post(f"{batch}/confirm", {"rows": rows})
    await dashboard.run_jobs()
    assert await _states(dashboard, batch) == ["ready"] * 4
    assert await dashboard.balance() == WALLET


async def test_a_wallet_drained_meanwhile_stops_the_file_at_that_row(
    dashboard: MerchantDashboard,
) -> None:
    batch = await draft(dashboard, [_row(300_000), _row(500_000), _row(1_000)])
    await dashboard.owner.post(f"{batch}/confirm", {})
    # An API payout debits the wallet between the file's confirmation and the payment of its rows.
    payout = {
        "payout_amount": 400_000,
        "currency_code": "NGN",
        "ref_trx": new_reference(),
        "ipn_url": "https://shop.example/ipn",
        "withdraw_method_id": await dashboard.method_id(),
        "beneficiary": {"bank_code": GTBANK, "account_number": new_account()},
    }
    reply = await dashboard.merchant.post("/api/v1/initiate-payout", payout)
    assert reply.status == 200, reply.body
    await dashboard.run_jobs()
    rows = await dashboard.rows(batch)
    assert [row[1] for row in rows] == ["paid", "refused", "refused"]
    assert rows[1][2] == "The wallet cannot cover the payout and its fee."
    assert rows[2][2].startswith("Not paid: the wallet could no longer cover row 2")
    assert await dashboard.balance() == WALLET - 700_000_00


async def test_two_files_confirmed_concurrently_do_not_spend_the_same_money(
    dashboard: MerchantDashboard,
) -> None:
    batches = [await draft(dashboard, [_row(300_000), _row(300_000)]) for _ in range(2)]
    await asyncio.gather(*(dashboard.owner.post(f"{batch}/confirm", {}) for batch in batches))
    await dashboard.run_jobs()
    states = sorted([await _states(dashboard, batch) for batch in batches])
    assert states == [["paid", "paid"], ["ready", "ready"]]
    assert await dashboard.balance() == WALLET - 600_000_00


@pytest.mark.long
async def test_a_user_pays_the_part_of_a_file_that_the_wallet_covers(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    batch = await _too_large(dashboard)
    for width in (390, 1280):
        async with dashboard.open_page(browser, batch, width=width) as page:
            assert not await accessibility_violations(page)
    async with dashboard.open_page(browser, batch, width=390) as page:
        await page.get_by_role("button", name="Pay only the first 2 rows").click()
        await page.get_by_label("Your password").fill(PASSWORD)
        await page.get_by_role("button", name="Confirm").click()
        await page.get_by_text("Paying: 2 of 4").wait_for()
        await dashboard.run_jobs()
        await page.get_by_text("Done: 2 of 4 delivered").wait_for()
        await page.get_by_role("link", name="Paid (2)", exact=True).wait_for()
        assert not await accessibility_violations(page)
