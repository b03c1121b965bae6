"""Administrators review, send and record disputes, and compare merchants' dispute rates."""

import io
import zipfile
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest
from playwright.async_api import Browser, expect

from manilla.approvals import approvals
from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.disputes import figures
from manilla.disputes.dispute import AnswerState, Dispute, DisputeStatus
from manilla.disputes.figures import Responder
from manilla.people.roles import ConsoleRole
from manilla.platform import settings
from manilla.platform.settings import PlatformSettings
from tests.checkout.page_checks import accessibility_violations
from tests.compliance.files import PNG
from tests.disputes.conftest import disputes, production, shop, simulator
from tests.disputes.steps import LATER, Disputes, Paid, naira
from tests.support.client import Site
from tests.web.signed_in_user import SignedInUser, administrator

__all__ = ["disputes", "production", "shop", "simulator"]

NOTE = {"note": "Sent as ticket 4711"}


@pytest.fixture
async def operator(disputes: Disputes, site: Site) -> SignedInUser:
    services, merchant_id = disputes.shop.services, disputes.tenant.merchant_id
    email = f"disputes-{merchant_id}@example.com"
    operator = await administrator(services, site, email, ConsoleRole.OPERATIONS)
    await operator.step_up(services)
    return operator


async def page_of(user: SignedInUser, path: str) -> str:
    reply = await user.get(path)
    assert reply.status == 200, reply.body
    return reply.body.decode()


def at(dispute: Dispute) -> str:
    return f"/disputes/{dispute.trx_id}"


async def answered(disputes: Disputes) -> Dispute:
    """Returns a contested dispute, whose answer an administrator must send at provider A."""
    dispute = await disputes.open(await disputes.pay())
    key = disputes.tenant, dispute.trx_id
    await disputes.service.set_evidence(*key, "Delivered on 3 November.", {"carrier": "Ada"})
    await disputes.service.add_file(*key, "../proof of delivery.png", PNG)
    return await disputes.service.submit(*key)


async def actions(disputes: Disputes, dispute: Dispute) -> list[str]:
    about = AuditFilter(merchant_id=dispute.merchant_id, subject=f"dispute:{dispute.trx_id}")
    return [each.action for each in await audit.list_entries(disputes.db, about)]


async def test_answer_is_downloaded_as_one_file_and_marked_as_sent(
    disputes: Disputes, operator: SignedInUser
) -> None:
    dispute = await answered(disputes)
    mine = f"merchant={dispute.merchant_id}"
    assert dispute.trx_id in await page_of(operator, f"/disputes?show=answers&{mine}")
    sent = await operator.get(f"{at(dispute)}/answer.zip")
    with zipfile.ZipFile(io.BytesIO(sent.body)) as archive:
        name = f"{dispute.trx_id}-1.png"
        assert archive.namelist() == ["answer.txt", name]
        assert archive.read(name) == PNG
        text = archive.read("answer.txt").decode()
    for part in ("Contest", dispute.provider_reference, "carrier: Ada", "Delivered on 3 November."):
        assert part in text

    done = await operator.post(f"{at(dispute)}/release", NOTE)
    assert "marked as sent" in await operator.follow(done)
    after = await disputes.now(dispute)
    assert (after.status, after.answer) == (DisputeStatus.SUBMITTED, AnswerState.SENT)
    assert await actions(disputes, dispute) == ["dispute.release"]
    assert dispute.trx_id not in await page_of(operator, f"/disputes?show=answers&{mine}")
    again = await operator.post(f"{at(dispute)}/release", NOTE)
    assert (again.status, await actions(disputes, dispute)) == (409, ["dispute.release"])


async def test_returned_answer_needs_a_response_with_the_note(
    disputes: Disputes, operator: SignedInUser
) -> None:
    dispute = await answered(disputes)
    done = await operator.post(f"{at(dispute)}/return", {"note": "Add the receipt."})
    assert "The answer was rejected: Add the receipt." in await operator.follow(done)
    after = await disputes.now(dispute)
    assert (after.status, after.answer_detail) == (
        DisputeStatus.NEEDS_RESPONSE,
        "Add the receipt.",
    )
    assert await actions(disputes, dispute) == ["dispute.return"]


@pytest.mark.parametrize("path", ["release", "return"])
async def test_decision_without_a_note_changes_nothing(
    disputes: Disputes, operator: SignedInUser, path: str
) -> None:
    dispute = await answered(disputes)
    reply = await operator.post(f"{at(dispute)}/{path}", {"note": ""})
    assert (reply.status, (await disputes.now(dispute)).answer) == (400, AnswerState.MANUAL)


def recorded(paid: Paid, **changed: str) -> dict[str, str]:
    return {
        "charge": paid.charge.reference,
        "provider_reference": "CB-77",
        "status": "needs_response",
        "amount": "600",
        "reason": "Goods not received",
        "respond_by": "2099-01-01T15:00",
        "note": "Seen in provider A's dashboard",
        **changed,
    }


async def test_dispute_is_recorded_and_then_changed_manually(
    disputes: Disputes, operator: SignedInUser
) -> None:
    paid = await disputes.pay()
    for charge in (paid.started.trx_id, paid.charge.reference):
        done = await operator.post("/disputes/new", recorded(paid, charge=charge))
        assert "Goods not received" in await operator.follow(done)
    [dispute] = await disputes.of(paid)
    assert (dispute.status, dispute.withheld) == (DisputeStatus.NEEDS_RESPONSE, naira("600"))
    assert dispute.respond_by == datetime(2099, 1, 1, 14, tzinfo=UTC)

    form = await page_of(operator, f"/disputes/new?dispute={dispute.trx_id}")
    assert 'value="CB-77"' in form
    lost = recorded(paid, dispute=dispute.trx_id, status="lost", fee="50")
    await operator.post("/disputes/new", lost)
    after = await disputes.now(dispute)
    assert (after.status, after.taken, after.fee) == (
        DisputeStatus.LOST,
        naira("600"),
        naira("50"),
    )
    assert set(await actions(disputes, dispute)) == {"dispute.record"}


@pytest.mark.parametrize("asker", [ConsoleRole.ADMINISTRATOR, ConsoleRole.OPERATIONS])
async def test_record_that_takes_money_waits_for_another_administrator(
    disputes: Disputes, in_production: dict[str, SignedInUser], asker: ConsoleRole
) -> None:
    user, second = in_production[asker], in_production["second"]
    limit = "NGN:500" if asker is ConsoleRole.ADMINISTRATOR else "NGN:10000000"
    await settings.change(disputes.db, "adjustment_limits", limit)
    try:
        paid = await disputes.pay()
        same = {"provider_reference": paid.charge.reference}
        done = await user.post("/disputes/new", recorded(paid, **same))
        assert "The dispute was recorded." in await user.follow(done)
        [dispute] = await disputes.of(paid)
        lost = recorded(paid, dispute=dispute.trx_id, status="lost", fee="50", **same)
        asked = await user.follow(await user.post("/disputes/new", lost))
    finally:
        await settings.change(disputes.db, "adjustment_limits", "NGN:10000000")
    assert "Nothing has changed yet. Another administrator must approve" in asked
    assert "awaits another administrator&#39;s approval" in asked.replace("'", "&#39;")
    assert (await disputes.now(dispute)).status is DisputeStatus.NEEDS_RESPONSE

    [waiting] = [
        each
        for each in await approvals.waiting(disputes.db)
        if each.subject == f"dispute:{dispute.trx_id}"
    ]
    page = await page_of(second, "/approvals")
    shown = page[page.index(f'id="approval-{waiting.id}"') :]
    shown = shown[: shown.index("</section>")]
    for text in (
        "Dispute record",
        "Amount: ₦650.00",
        "Status: needs_response → lost",
        "Taken: ₦600.00",
        "Fee: ₦50.00",
        f"Provider reference: {dispute.provider_reference}",
        "Note: Seen in provider A",
        f"Merchant {dispute.merchant_id}",
        f"/console/disputes/{dispute.trx_id}",
    ):
        assert text in shown, text
    refused = await user.post(f"/approvals/{waiting.id}/approve", {})
    assert refused.status == 403 or "another person must" in await user.follow(refused)
    approved = await second.post(f"/approvals/{waiting.id}/approve", {})
    assert "change applied" in await second.follow(approved)
    after = await disputes.now(dispute)
    assert (after.status, after.taken) == (DisputeStatus.LOST, naira("600"))
    assert "Dispute record" in await page_of(second, "/approvals?kind=dispute_record")


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"charge": "TXN-unknown"}, "charge"),
        ({"provider_reference": ""}, "provider_reference"),
        ({"status": "not_found"}, "status"),
        ({"amount": "much"}, "amount"),
        ({"respond_by": "tomorrow"}, "respond_by"),
        ({"fee": "-1"}, "fee"),
    ],
)
async def test_wrong_record_is_rejected_at_its_field(
    disputes: Disputes, operator: SignedInUser, changed: dict[str, str], place: str
) -> None:
    paid = await disputes.pay()
    reply = await operator.post("/disputes/new", recorded(paid, **changed))
    assert reply.status == 400
    assert f'id="h-{place}"' in reply.body.decode()
    assert await disputes.of(paid) == []


async def test_rates_compare_disputes_with_payments_of_the_month(
    disputes: Disputes, operator: SignedInUser
) -> None:
    merchant_id = disputes.tenant.merchant_id
    paid = [await disputes.pay(100) for _ in range(figures.DISPUTES_MIN + 1)]
    today = datetime.now(UTC).date()
    before = await figures.count_high_rates(disputes.db, PlatformSettings(), today)
    for each in paid[1:-1]:
        await disputes.open(each, "100")
    [row] = await figures.rates(disputes.db, figures.months(today, 2), merchant_id)
    assert (row.disputes, row.payments, row.is_high(PlatformSettings())) == (4, 6, False)
    assert await figures.count_high_rates(disputes.db, PlatformSettings(), today) == before

    await disputes.open(paid[0], "100")
    assert await figures.count_high_rates(disputes.db, PlatformSettings(), today) == before + 1
    everything = PlatformSettings(dispute_rate_per_1000=1000)
    high = await figures.count_high_rates(disputes.db, everything, today)
    [row] = await figures.rates(disputes.db, figures.months(today, 1), merchant_id)
    assert (row.is_high(everything), high <= before) == (False, True)
    page = await page_of(operator, "/disputes/rates")
    assert "83.33 %" in page
    assert "Above" in await page_of(operator, f"/disputes/rates?merchant={merchant_id}")
    export = await operator.get(f"/disputes/rates?format=csv&merchant={merchant_id}")
    assert f",{merchant_id}," in export.body.decode()
    assert (await operator.get("/disputes/rates?month=2020-01")).status == 404


async def test_ending_disputes_are_counted_by_who_must_act(disputes: Disputes) -> None:
    before = await figures.count_ending(disputes.db)
    soon = datetime.now(UTC) + figures.ENDING / 2
    await disputes.open(await disputes.pay(), respond_by=LATER)
    waiting = await disputes.open(await disputes.pay(), respond_by=soon)
    after = await figures.count_ending(disputes.db)
    assert {who: after[who] - before[who] for who in Responder} == {"merchant": 1, "operator": 0}
    await disputes.service.accept(disputes.tenant, waiting.trx_id)
    after = await figures.count_ending(disputes.db)
    assert {who: after[who] - before[who] for who in Responder} == {"merchant": 0, "operator": 1}


async def test_lists_filter_by_provider_and_find_the_providers_id(
    disputes: Disputes, operator: SignedInUser
) -> None:
    dispute = await disputes.open(await disputes.pay())
    mine = {"merchant": str(dispute.merchant_id)}
    for query, is_found in (
        ({"provider": "providera"}, True),
        ({"provider": "providerb"}, False),
        ({"q": dispute.provider_reference}, True),
        ({"show": "missed"}, False),
        ({"show": "all", "answer": "review"}, False),
    ):
        page = await page_of(operator, f"/disputes?{urlencode({**mine, **query})}")
        assert (dispute.trx_id in page) is is_found, query
    export = (await operator.get(f"/disputes?{urlencode({**mine, 'format': 'csv'})}")).body
    assert dispute.provider_reference in export.decode()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
async def test_administrator_sends_an_answer_in_the_browser(
    disputes: Disputes, operator: SignedInUser, browser: Browser, width: int, scheme: str
) -> None:
    dispute = await answered(disputes)
    context = await browser.new_context(
        viewport={"width": width, "height": 844},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    await operator.enter(context)
    page = await context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    await page.goto(f"{disputes.shop.services.base_url}/console{at(dispute)}")
    assert not await accessibility_violations(page)
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Download answer with all files").click()
    assert (await download.value).suggested_filename == f"{dispute.trx_id}.zip"
    await page.get_by_label("Note").fill("Ticket 4711")
    await page.get_by_role("button", name="Mark as sent").click()
    await expect(page.get_by_text("The answer was marked as sent.")).to_be_visible()
    assert not await accessibility_violations(page)
    assert said == []
    await context.close()
