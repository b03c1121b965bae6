"""A merchant answers disputes in the dashboard, and sees what they withhold from the wallet."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from manilla.disputes.dispute import AnswerState, Dispute, DisputeStatus
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.people.roles import Role
from manilla.providers.kinds.providera import ProviderA
from manilla.refunds import initiate
from tests.checkout.page_checks import accessibility_violations
from tests.compliance.files import PNG, SVG
from tests.disputes.conftest import disputes, production, shop, simulator
from tests.disputes.dispute_api import DisputeApi
from tests.disputes.steps import LOST, Disputes, naira
from tests.support.client import Site
from tests.web.signed_in_user import PASSWORD, SignedInUser, member

__all__ = ["disputes", "production", "shop", "simulator"]

PAGES = "/production/disputes"
BELOW = "/production/wallets/NGN/accept-disputes-below"
TEXT = "The customer signed for the goods."


@pytest.fixture
async def owner(disputes: Disputes, site: Site) -> SignedInUser:
    owner = await member(disputes.shop.services, site, disputes.tenant.merchant_id)
    await owner.step_up(disputes.shop.services)
    return owner


def at(dispute: Dispute) -> str:
    return f"{PAGES}/{dispute.trx_id}"


async def page_of(user: SignedInUser, path: str) -> str:
    reply = await user.get(path)
    assert reply.status == 200, reply.body
    return reply.body.decode()


async def opened(disputes: Disputes, hours: float = 30, **changed: Any) -> Dispute:
    respond_by = datetime.now(UTC) + timedelta(hours=hours)
    return await disputes.open(await disputes.pay(), respond_by=respond_by, **changed)


async def limits(disputes: Disputes) -> list[Money]:
    return await wallets.dispute_limits(disputes.db, disputes.tenant)


async def test_list_shows_what_ends_first_and_missed_deadlines_apart(
    disputes: Disputes, owner: SignedInUser
) -> None:
    later, sooner = await opened(disputes, 30), await opened(disputes, 3.5)
    missed, ended = await opened(disputes, -1), await opened(disputes, 1)
    await disputes.shop.services.db.execute(
        "UPDATE dispute SET missed_at = now() WHERE trx_id = $1", missed.trx_id
    )
    await disputes.service.accept(disputes.tenant, ended.trx_id)

    page = await page_of(owner, PAGES)
    assert page.index(sooner.trx_id) < page.index(later.trx_id)
    assert "3 h left" in page
    assert (missed.trx_id in page, ended.trx_id in page) == (False, False)
    page = await page_of(owner, f"{PAGES}?show=missed")
    assert (missed.trx_id in page, later.trx_id in page) == (True, False)
    page = await page_of(owner, f"{PAGES}?show=all&status=submitted")
    assert (ended.trx_id in page, later.trx_id in page) == (True, False)
    found = await page_of(owner, f"{PAGES}?q={ended.payment_trx_id}")
    assert ended.trx_id in found
    assert "2 disputes need a response" in await page_of(owner, "/production")


async def test_acceptance_is_reviewed_and_takes_only_the_accepted_amount(
    disputes: Disputes, owner: SignedInUser
) -> None:
    dispute = await opened(disputes)
    review = await owner.post(f"{at(dispute)}/accept/review", {"amount": "400"})
    assert review.status == 200
    for amount in ("Accept ₦400.00?", "₦600.00", "₦1,000.00"):
        assert amount in review.body.decode()
    assert (await disputes.now(dispute)).status is DisputeStatus.NEEDS_RESPONSE

    accepted = await owner.post(f"{at(dispute)}/accept", {"amount": "400"})
    assert "You accepted ₦400.00." in await owner.follow(accepted)
    after = await disputes.now(dispute)
    assert (after.status, after.accepted) == (DisputeStatus.SUBMITTED, naira("400"))
    again = await owner.post(f"{at(dispute)}/accept", {"amount": "400"})
    assert again.status == 422
    assert "it needs no response now" in again.body.decode()


@pytest.mark.parametrize("amount", ["0", "1000.01", "-5", "all", ""])
async def test_wrong_amount_is_rejected_at_its_field_and_accepts_nothing(
    disputes: Disputes, owner: SignedInUser, amount: str
) -> None:
    dispute = await opened(disputes)
    for path in ("/accept/review", "/accept"):
        reply = await owner.post(at(dispute) + path, {"amount": amount})
        assert reply.status == 400
        assert 'id="h-amount"' in reply.body.decode()
    assert (await disputes.now(dispute)).status is DisputeStatus.NEEDS_RESPONSE


async def test_draft_and_file_are_saved_together_and_submitted_later(
    disputes: Disputes, owner: SignedInUser
) -> None:
    dispute = await opened(disputes)
    path = f"{at(dispute)}/evidence"
    saved = await owner.upload(path, {"text": TEXT, "save": "on"}, "proof.png", PNG)
    page = await owner.follow(saved)
    assert "Nothing was submitted yet" in page
    assert (TEXT in page, "proof.png" in page) == (True, True)
    [file] = await disputes.service.files(disputes.tenant, dispute.trx_id)
    sent = await owner.get(f"{at(dispute)}/files/{file.number}")
    assert (sent.body, sent.headers["content-disposition"]) == (
        PNG,
        f'attachment; filename="{dispute.trx_id.lower()}-1.png"',
    )
    assert (await owner.get(f"{at(dispute)}/files/2")).status == 404

    submitted = await owner.post(path, {"text": TEXT + " Twice.", "submit": "on"})
    assert "Your evidence was submitted." in await owner.follow(submitted)
    after = await disputes.now(dispute)
    assert (after.status, after.answer) == (DisputeStatus.SUBMITTED, AnswerState.MANUAL)
    assert after.evidence_text == TEXT + " Twice."
    late = await owner.upload(path, {"text": "Late", "save": "on"}, "late.png", PNG)
    assert late.status == 422
    assert (await disputes.now(dispute)).evidence_text == TEXT + " Twice."


async def test_removing_a_file_saves_the_text(disputes: Disputes, owner: SignedInUser) -> None:
    dispute = await opened(disputes)
    path = f"{at(dispute)}/evidence"
    await owner.upload(path, {"text": "", "save": "on"}, "proof.png", PNG)
    removed = await owner.post(path, {"text": TEXT, "remove": "1"})
    assert removed.status == 303
    assert await disputes.service.files(disputes.tenant, dispute.trx_id) == []
    assert (await disputes.now(dispute)).evidence_text == TEXT


async def test_bad_evidence_is_reported_at_its_field(
    disputes: Disputes, owner: SignedInUser
) -> None:
    dispute = await opened(disputes)
    path = f"{at(dispute)}/evidence"
    empty = await owner.post(path, {"text": " ", "submit": "on"})
    wrong = await owner.upload(path, {"text": TEXT, "submit": "on"}, "proof.png", SVG)
    long = await owner.post(path, {"text": "x" * 5_001, "save": "on"})
    for reply, place, text in (
        (empty, "h-text", "Enter a text, or add a file."),
        (wrong, "h-file", "This is not a complete PDF, PNG or JPEG file."),
        (long, "h-text", "5000 characters"),
    ):
        assert 400 <= reply.status < 500
        assert f'id="{place}"' in reply.body.decode()
        assert text in reply.body.decode()
    assert (await disputes.now(dispute)).status is DisputeStatus.NEEDS_RESPONSE
    assert await disputes.service.files(disputes.tenant, dispute.trx_id) == []


async def test_a_missing_file_that_the_provider_needs_is_reported_at_its_field(
    disputes: Disputes, owner: SignedInUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = DisputeApi()
    api.needs_file = True
    monkeypatch.setattr(ProviderA, "disputes", api)
    dispute = await opened(disputes)
    reply = await owner.post(f"{at(dispute)}/evidence", {"text": TEXT, "submit": "on"})
    assert 400 <= reply.status < 500
    assert 'id="h-file"' in reply.body.decode()
    assert "The provider needs a file" in reply.body.decode()


async def test_page_has_no_forms_after_the_deadline_or_for_viewers(
    disputes: Disputes, owner: SignedInUser, site: Site
) -> None:
    dispute, late = await opened(disputes), await opened(disputes, -1)
    viewer = await member(disputes.shop.services, site, dispute.merchant_id, Role.VIEWER)
    form = 'action="/dashboard/production/disputes/'
    assert form in await page_of(owner, at(dispute))
    for user, path in ((owner, at(late)), (viewer, at(dispute))):
        assert form not in await page_of(user, path)
    reply = await owner.post(f"{at(late)}/evidence", {"text": TEXT, "submit": "on"})
    assert (reply.status, (await disputes.now(late)).evidence_text) == (422, "")


async def test_refund_of_the_same_payment_is_shown_to_the_person_who_answers(
    disputes: Disputes, owner: SignedInUser
) -> None:
    paid = await disputes.pay()
    db = disputes.shop.services.db
    await initiate.start(db, paid.started.trx_id, "300", "Part of the goods")
    await disputes.shop.until_refunded(paid.started)
    page = await page_of(owner, at(await disputes.open(paid)))
    assert "₦300.00 of this payment was already refunded to the customer" in page
    assert "₦700.00" in page


async def test_withheld_and_owed_money_is_shown_beside_every_balance(
    disputes: Disputes, owner: SignedInUser
) -> None:
    await opened(disputes)
    lost = await disputes.pay()
    await disputes.empty_wallet()
    await disputes.open(lost)
    await disputes.report(lost.reported(LOST))
    for path in ("", "/wallets", "/wallets/NGN", "/settlements"):
        page = await page_of(owner, f"/production{path}")
        assert "₦1,000.00 withheld" in page, path
        assert "₦1,000.00 owed" in page, path
    payment = await page_of(owner, f"/production/payments/{lost.started.trx_id}")
    assert "was returned to the customer after a dispute" in payment
    assert f"{PAGES}/DSP" in payment


async def test_search_and_export_find_disputes(disputes: Disputes, owner: SignedInUser) -> None:
    dispute = await opened(disputes, reason="Goods not received")
    found = await owner.get(f"/production/search?q={dispute.trx_id}")
    assert (found.status, found.location) == (303, f"/dashboard{at(dispute)}")
    export = (await owner.get(f"{PAGES}?format=csv")).body.decode()
    assert dispute.trx_id in export
    assert "Goods not received" in export


async def test_acceptance_needs_a_recent_identity_check(disputes: Disputes, site: Site) -> None:
    merchant_id = disputes.tenant.merchant_id
    finance = await member(disputes.shop.services, site, merchant_id, Role.FINANCE)
    dispute = await opened(disputes)
    await finance.post(f"{at(dispute)}/accept", {"amount": "1000"})
    assert (await disputes.now(dispute)).status is DisputeStatus.NEEDS_RESPONSE


def below_form(page: str) -> str:
    """Returns the summary and the form for the automatic acceptance of small disputes."""
    return page[page.index("Accept small disputes automatically") :].partition("</details>")[0]


async def test_amount_for_automatic_acceptance_is_saved_in_one_environment(
    disputes: Disputes, owner: SignedInUser
) -> None:
    assert "automatically: off" in await page_of(owner, PAGES)
    saved = await owner.post(BELOW, {"below_NGN": "1,000.01"})
    page = await owner.follow(saved)
    assert "New disputes below ₦1,000.01 will be accepted automatically." in page
    shown = below_form(page)
    assert "automatically: below ₦1,000.01" in shown
    assert 'value="1000.01"' in shown
    assert "automatically: off" in await page_of(owner, "/sandbox/disputes")
    dispute = await opened(disputes)
    assert (dispute.status, dispute.accepted) == (DisputeStatus.SUBMITTED, naira("1000"))

    ended = await owner.follow(await owner.post(BELOW, {"below_NGN": "0"}))
    assert "New disputes in NGN will not be accepted automatically." in ended
    assert "automatically: off" in below_form(ended)
    assert (await opened(disputes)).status is DisputeStatus.NEEDS_RESPONSE


@pytest.mark.parametrize("amount", ["-5", "1500,50", "all", "", "1.001", "9" * 20])
async def test_wrong_amount_for_automatic_acceptance_is_shown_at_its_field(
    disputes: Disputes, owner: SignedInUser, amount: str
) -> None:
    await owner.post(BELOW, {"below_NGN": "500"})
    page = await owner.follow(await owner.post(BELOW, {"below_NGN": amount}))
    shown = below_form(page)
    assert 'id="h-below_NGN"' in shown
    assert f'value="{amount}"' in shown
    assert '<details class="more" open>' in page
    assert await limits(disputes) == [naira("500")]


async def test_each_currency_has_its_own_amount_and_errors(
    disputes: Disputes, owner: SignedInUser
) -> None:
    async with disputes.db.transaction() as connection:
        await wallets.open_all(connection, disputes.tenant.merchant_id, ["USD"])
    in_dollars = BELOW.replace("NGN", "USD")
    await owner.post(in_dollars, {"below_USD": "20"})
    page = await owner.follow(await owner.post(in_dollars, {"below_USD": "few"}))
    assert "automatically: off (NGN)" in page
    assert page.count('<details class="more" open>') == 1
    assert ('id="h-below_USD"' in page, 'id="h-below_NGN"' in page) == (True, False)
    assert await limits(disputes) == [naira("0"), Money.of(20, "USD")]


async def test_automatic_acceptance_in_an_unknown_currency_is_rejected(
    disputes: Disputes, owner: SignedInUser
) -> None:
    path = BELOW.replace("NGN", "USD")
    assert (await owner.post(path, {"below_USD": "500"})).status == 404
    assert await limits(disputes) == [naira("0")]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.DEVELOPER])
async def test_automatic_acceptance_needs_the_permission_to_move_money(
    disputes: Disputes, site: Site, role: Role
) -> None:
    services = disputes.shop.services
    user = await member(services, site, disputes.tenant.merchant_id, role)
    await user.step_up(services)
    assert "Accept small disputes automatically" not in await page_of(user, PAGES)
    assert (await user.post(BELOW, {"below_NGN": "500"})).status == 403
    assert await limits(disputes) == [naira("0")]


async def test_automatic_acceptance_needs_a_recent_identity_check(
    disputes: Disputes, site: Site
) -> None:
    merchant_id = disputes.tenant.merchant_id
    finance = await member(disputes.shop.services, site, merchant_id, Role.FINANCE)
    asked = await finance.post(BELOW, {"below_NGN": "500"})
    assert "Confirm your identity" in asked.body.decode()
    assert await limits(disputes) == [naira("0")]
    wish = {"below_NGN": "500", "step_up_secret": PASSWORD}
    await finance.follow(await finance.post(BELOW, wish))
    assert await limits(disputes) == [naira("500")]


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
async def test_merchant_sets_automatic_acceptance_in_the_browser(
    disputes: Disputes, owner: SignedInUser, browser: Browser, width: int, scheme: str
) -> None:
    context = await browser.new_context(
        viewport={"width": width, "height": 844},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    await owner.enter(context)
    page = await context.new_page()
    await page.goto(f"{disputes.shop.services.base_url}/dashboard{PAGES}")
    await page.get_by_text("Accept small disputes automatically: off").click()
    await page.get_by_label("Amount in NGN").fill("lots")
    await page.get_by_role("button", name="Save amount").click()
    await expect(page.get_by_label("Amount in NGN")).to_have_value("lots")
    assert not await accessibility_violations(page)
    await page.get_by_label("Amount in NGN").fill("₦2,500")
    await page.get_by_role("button", name="Save amount").click()
    await expect(page.get_by_text("automatically: below ₦2,500.00")).to_be_visible()
    assert not await accessibility_violations(page)
    assert await limits(disputes) == [naira("2500")]
    await context.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
async def test_merchant_contests_a_dispute_in_the_browser(
    disputes: Disputes, owner: SignedInUser, browser: Browser, width: int, scheme: str
) -> None:
    dispute = await opened(disputes)
    services = disputes.shop.services
    context = await browser.new_context(
        viewport={"width": width, "height": 844},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    await owner.enter(context)
    page = await context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    await page.goto(f"{services.base_url}/dashboard{PAGES}")
    await page.get_by_role("link", name=dispute.ref_trx).click()
    await page.get_by_label("What happened").fill(TEXT)
    await page.get_by_label("Add a file").set_input_files(
        {"name": "proof.png", "mimeType": "image/png", "buffer": PNG}
    )
    await page.get_by_role("button", name="Save draft").click()
    await expect(page.get_by_text("Nothing was submitted yet")).to_be_visible()
    assert not await accessibility_violations(page)
    await page.get_by_role("button", name="Submit evidence").click()
    await expect(page.get_by_text("An administrator sends the answer")).to_be_visible()
    assert not await accessibility_violations(page)
    assert (await disputes.now(dispute)).evidence_text == TEXT
    assert len(await disputes.service.files(disputes.tenant, dispute.trx_id)) == 1
    assert said == []
    await context.close()
