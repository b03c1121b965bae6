"""A receipt, as a page or a file, has the correct content for each viewer."""

import re
from collections.abc import AsyncIterator

import pytest

from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard, redirect_target
from tests.payouts.payout_merchant import new_reference
from tests.support.client import Site
from tests.support.provider_simulator import running_simulator

ACCOUNT = "0123456789"


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> AsyncIterator[MerchantDashboard]:
    async with running_simulator(
        services
    ):  # A rail is offered only if it has credentials, even in the sandbox.
        yield await new_dashboard(services, site)


async def _payout(dashboard: MerchantDashboard) -> str:
    paid = await dashboard.owner.post(
        "/sandbox/payouts",
        {
            "method": str(await dashboard.method_id()),
            "bank_code": "058",
            "account_number": ACCOUNT,
            "amount": "1500",
            "once": new_reference(),
        },
    )
    await dashboard.run_jobs()
    return redirect_target(paid)


def _verification(page: bytes) -> str:
    found = re.search(rb'href="http://[^/"]+(/verify/[^"]+)"', page)
    assert found
    return found.group(1).decode()


async def test_a_receipt_links_to_a_page_with_current_and_limited_facts(
    dashboard: MerchantDashboard, site: Site
) -> None:
    payout = await _payout(dashboard)
    receipt = await dashboard.owner.get(f"{payout}/receipt")
    assert "₦1,500.00" in receipt.body.decode()
    address = _verification(receipt.body)
    shown = (await site.send("GET", address)).body.decode()
    for part in ("Ada Stores", "₦1,500.00", "Delivered", "S•• B••", "••••6789", "Sandbox"):
        assert part in shown
    for secret in (ACCOUNT, "BENEFICIARY", dashboard.owner.email, "DASH-"):
        assert secret not in shown

    trx_id, signature = address.split("/")[2:]
    other = await dashboard.pay_in()
    for wrong in (
        f"/verify/{trx_id}/{'0' * len(signature)}",
        f"/verify/{trx_id}/{signature[:-1]}",
        f"/verify/{trx_id}/é",
        f"/verify/{other}/{signature}",
        f"/verify/nothing/{signature}",
    ):
        reply = await site.send("GET", wrong.replace("é", "%C3%A9"))
        assert reply.status == 404, wrong
        assert b"There is no receipt" in reply.body


async def test_a_refunded_payments_receipt_says_so(
    dashboard: MerchantDashboard, site: Site, services: Services
) -> None:
    trx_id = await dashboard.pay_in(payment_amount=800)
    path = f"/sandbox/payments/{trx_id}"
    address = _verification((await dashboard.owner.get(f"{path}/receipt")).body)
    paid = (await site.send("GET", address)).body.decode()
    assert "Paid</span>" in paid
    await dashboard.owner.post(f"{path}/refund", {"reason": "Broken", "refunded_before": "0"})
    # The refund is still pending.
    assert "refunded" not in (await site.send("GET", address)).body.decode()
    await dashboard.run_jobs()
    await services.db.execute(  # Later events do not change the payment date on the receipt.
        "UPDATE payment SET updated_at = updated_at + interval '3 days' WHERE trx_id = $1", trx_id
    )
    now = (await site.send("GET", address)).body.decode()
    assert "Paid and refunded" in now
    assert _date(now) == _date(paid)


def _date(page: str) -> str:
    return page.partition("<dt>Date</dt><dd>")[2].partition("</dd>")[0]


async def test_a_receipt_can_be_downloaded_with_any_names(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    for name in ("Ọlá Ṣẹ́gun Ńgọzi", "李小龍 😀 عبد الله", "W" * 100):
        trx_id = await dashboard.pay_in(customer_name=name, description="Line\nby line " * 20)
        reply = await dashboard.owner.get(f"/sandbox/payments/{trx_id}/receipt.pdf")
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/pdf"
        assert reply.body.startswith(b"%pdf") or reply.body.startswith(b"%PDF")
        assert len(reply.body) < 200_000
    payout = await _payout(dashboard)
    assert (await dashboard.owner.get(f"{payout}/receipt.pdf")).body.startswith(b"%PDF")

    other_merchant = await new_dashboard(services, site)
    for path in (f"{payout}/receipt", f"/sandbox/payments/{trx_id}/receipt.pdf"):
        assert (await other_merchant.owner.get(path)).status == 404
        assert (await dashboard.owner.get(path.replace("sandbox", "production"))).status == 404
