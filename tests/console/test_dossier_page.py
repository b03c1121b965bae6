"""An administrator reviews a dossier: the checklist, approval, and reasons for rejection."""

import asyncio

import pytest
from playwright.async_api import Browser

from manilla.compliance import documents, dossiers, reviews
from manilla.compliance.dossiers import DossierState
from manilla.mail.kinds import MailKind
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantLevel, MerchantStatus, MerchantUpdate
from manilla.people.roles import ConsoleRole
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations
from tests.compliance.files import PDF
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.dashboard.test_verification import complete
from tests.mail.outbox_reader import letters_to
from tests.support.client import Site
from tests.web.signed_in_user import SignedInUser

APPROVE = {"status": "approved", "was": "pending"}


@pytest.fixture
async def pending(services: Services, site: Site) -> MerchantDashboard:
    dashboard = await new_dashboard(services, site)
    change = MerchantUpdate(status=MerchantStatus.PENDING)
    await merchants.change(services.db, services.keyring, dashboard.merchant.new.id, change)
    return dashboard


@pytest.fixture
async def officer(services: Services, people: dict[ConsoleRole, SignedInUser]) -> SignedInUser:
    user = people[ConsoleRole.OPERATIONS]
    await user.step_up(services)
    return user


def _at(dashboard: MerchantDashboard, rest: str = "") -> str:
    return f"/merchants/{dashboard.merchant.new.id}{rest}"


async def _submit(dashboard: MerchantDashboard) -> None:
    await complete(dashboard)
    await reviews.submit(dashboard.services.db, dashboard.merchant.new.id)


async def _now(dashboard: MerchantDashboard) -> tuple[str, str, str | None]:
    """Returns the merchant's status and level, and the dossier's state."""
    db, merchant_id = dashboard.services.db, dashboard.merchant.new.id
    merchant, dossier = await merchants.get(db, merchant_id), await dossiers.find(db, merchant_id)
    return merchant.status, merchant.level, dossier.state if dossier else None


async def test_approving_a_complete_dossier_approves_and_verifies_the_merchant(
    pending: MerchantDashboard, officer: SignedInUser
) -> None:
    await _submit(pending)
    page = (await officer.get(_at(pending))).body.decode()
    assert "8 of 8 complete" in page
    assert page.index("8 of 8 complete") < page.index("Approve</button>")
    assert "Reason for approving without" not in page
    reply = await officer.post(_at(pending, "/status"), APPROVE)
    assert "can now use production" in await officer.follow(reply)
    assert await _now(pending) == ("approved", "verified", "approved")


async def test_an_incomplete_dossier_is_approved_only_with_a_reason(
    pending: MerchantDashboard, officer: SignedInUser
) -> None:
    address = {"address": "1 Marina, Lagos"}
    await pending.owner.post("/verification/sections/address", address)
    page = (await officer.get(_at(pending))).body.decode()
    assert "Reason for approving without complete KYC" in page
    silent = await officer.post(_at(pending, "/status"), {**APPROVE, "reason": "  "})
    assert "Enter a reason for the approval." in await officer.follow(silent)
    assert await _now(pending) == ("pending", "unverified", "draft")
    await officer.post(_at(pending, "/status"), {**APPROVE, "reason": "Known since 2019"})
    assert await _now(pending) == ("approved", "verified", "approved")
    assert "Known since 2019" in (await officer.get(_at(pending, "/dossier"))).body.decode()
    for path in ("/verification", "/profile"):
        assert "Known since 2019" not in (await pending.owner.get(path)).body.decode()


async def test_without_a_dossier_a_reason_is_needed_only_in_production_mode(
    pending: MerchantDashboard, officer: SignedInUser
) -> None:
    services, merchant_id = pending.services, pending.merchant.new.id
    about = services.db, services.keyring, merchant_id, MerchantStatus.APPROVED
    with pytest.raises(reviews.ReasonRequired):
        await reviews.decide_merchant(*about, "", was=MerchantStatus.PENDING, needs_dossier=True)
    await officer.post(_at(pending, "/status"), APPROVE)
    assert await _now(pending) == ("approved", "unverified", None)


async def test_a_rejected_merchant_sees_the_note_and_can_submit_again(
    pending: MerchantDashboard, officer: SignedInUser
) -> None:
    await _submit(pending)
    reject = {"status": "rejected", "was": "pending", "reason": "The certificate is unreadable."}
    await officer.post(_at(pending, "/status"), reject)
    assert await _now(pending) == ("rejected", "unverified", "rejected")
    page = (await pending.owner.get("/verification")).body.decode()
    assert "The certificate is unreadable." in page
    await pending.owner.post("/verification/submit", {})
    assert await _now(pending) == ("rejected", "unverified", "submitted")
    await officer.post(_at(pending, "/status"), {**APPROVE, "was": "rejected"})
    assert await _now(pending) == ("approved", "verified", "approved")


@pytest.mark.parametrize("verdict", ["approved", "rejected"])
@pytest.mark.parametrize("earlier", ["approved", "rejected"])
async def test_a_merchant_is_decided_after_its_kyc_by_either_decision(
    pending: MerchantDashboard, officer: SignedInUser, earlier: str, verdict: str
) -> None:
    await _submit(pending)
    kyc = {"state": earlier, "was": "submitted", "note": "Checked at the registry."}
    await officer.post(_at(pending, "/dossier/decide"), kyc)
    decision = {"status": verdict, "was": "pending", "reason": "Checked by phone."}
    reply = await officer.post(_at(pending, "/status"), decision)
    assert f"{verdict.capitalize()}. The merchant" in await officer.follow(reply)
    level = "verified" if verdict == "approved" else "unverified"
    assert await _now(pending) == (verdict, level, verdict)
    moves = 2 if verdict == earlier else 3
    assert len(await dossiers.history(pending.services.db, pending.merchant.new.id)) == moves


@pytest.mark.parametrize("verdict", ["approved", "rejected"])
@pytest.mark.parametrize("earlier", ["approved", "rejected"])
async def test_kyc_is_decided_after_its_merchant_by_the_other_decision(
    pending: MerchantDashboard, officer: SignedInUser, earlier: str, verdict: str
) -> None:
    await _submit(pending)
    decision = {"status": earlier, "was": "pending", "reason": "Checked by phone."}
    await officer.post(_at(pending, "/status"), decision)
    kyc = {"state": verdict, "was": earlier, "note": "Checked at the registry."}
    page = await officer.follow(await officer.post(_at(pending, "/dossier/decide"), kyc))
    assert ("The verification is now" in page) == (verdict == earlier)
    level = "verified" if verdict == "approved" else "unverified"
    assert await _now(pending) == (earlier, level, verdict)


async def test_the_reason_for_approving_incomplete_kyc_is_asked_once(
    pending: MerchantDashboard, officer: SignedInUser
) -> None:
    address = {"address": "1 Marina, Lagos"}
    await pending.owner.post("/verification/sections/address", address)
    kyc = {"state": "approved", "was": "draft", "note": "Known since 2019"}
    await officer.post(_at(pending, "/dossier/decide"), kyc)
    assert "Reason for approving" not in (await officer.get(_at(pending))).body.decode()
    await officer.post(_at(pending, "/status"), APPROVE)
    assert await _now(pending) == ("approved", "verified", "approved")


async def test_a_level_that_an_administrator_sets_after_the_kyc_outlasts_the_approval(
    pending: MerchantDashboard, officer: SignedInUser
) -> None:
    await _submit(pending)
    kyc = {"state": "approved", "was": "submitted", "note": ""}
    await officer.post(_at(pending, "/dossier/decide"), kyc)
    services, merchant_id = pending.services, pending.merchant.new.id
    lowered = MerchantUpdate(level=MerchantLevel.UNVERIFIED)
    await merchants.change(services.db, services.keyring, merchant_id, lowered)
    await officer.post(_at(pending, "/status"), APPROVE)
    assert await _now(pending) == ("approved", "unverified", "approved")


async def test_asking_for_information_needs_a_note_and_leaves_the_status(
    pending: MerchantDashboard, officer: SignedInUser
) -> None:
    await _submit(pending)
    ask = {"state": "needs_information", "was": "submitted"}
    silent = await officer.post(_at(pending, "/dossier/decide"), {**ask, "note": " "})
    assert "Enter a note. The merchant will see it." in await officer.follow(silent)
    await officer.post(_at(pending, "/dossier/decide"), {**ask, "note": "Page 2, please."})
    services = pending.services
    letters = await letters_to(services.db, services.letters, pending.owner.email)
    [asked] = [each for each in letters if each.kind == MailKind.MERCHANT_NEEDS_INFORMATION]
    assert "Page 2, please." in asked.text
    submitted = await letters_to(services.db, services.letters, officer.email)
    assert "Ada Stores asks for approval" in {each.subject for each in submitted}
    assert await _now(pending) == ("pending", "unverified", "needs_information")
    late = await officer.post(_at(pending, "/dossier/decide"), {**ask, "note": "Again."})
    assert "has changed in the meantime" in await officer.follow(late)
    assert len(await dossiers.history(pending.services.db, pending.merchant.new.id)) == 2


async def test_an_approved_merchant_becomes_verified_with_its_dossier(
    services: Services, site: Site, officer: SignedInUser
) -> None:
    dashboard = await new_dashboard(services, site)
    await _submit(dashboard)
    form = {"state": "approved", "was": "submitted"}
    await officer.post(_at(dashboard, "/dossier/decide"), form)
    assert await _now(dashboard) == ("approved", "verified", "approved")


@pytest.mark.parametrize("state", ["draft", "submitted", "nonsense"])
async def test_an_administrator_cannot_set_a_state_that_is_the_merchants(
    pending: MerchantDashboard, officer: SignedInUser, state: str
) -> None:
    await _submit(pending)
    form = {"state": state, "was": "submitted", "note": "x"}
    await officer.post(_at(pending, "/dossier/decide"), form)
    assert await _now(pending) == ("pending", "unverified", "submitted")


async def test_concurrent_decisions_apply_once(
    pending: MerchantDashboard, officer: SignedInUser
) -> None:
    await _submit(pending)
    reject = {"status": "rejected", "was": "pending", "reason": "No."}
    await asyncio.gather(
        officer.post(_at(pending, "/status"), APPROVE),
        officer.post(_at(pending, "/status"), reject),
    )
    status, _, state = await _now(pending)
    assert status == state
    assert len(await dossiers.history(pending.services.db, pending.merchant.new.id)) == 2


async def test_a_different_name_of_the_settlement_account_is_pointed_out(
    pending: MerchantDashboard, officer: SignedInUser
) -> None:
    await complete(pending)
    page = (await officer.get(_at(pending))).body.decode()
    assert "ADA FOODS LIMITED" in page
    assert "differs from the legal name" not in page
    await dossiers.save(pending.services.db, pending.merchant.new.id, {"legal_name": "Bola Motors"})
    page = (await officer.get(_at(pending))).body.decode()
    assert "differs from the legal name, Bola Motors." in page


async def test_documents_are_downloaded_by_roles_that_decide_and_each_time_audited(
    pending: MerchantDashboard, officer: SignedInUser, people: dict[ConsoleRole, SignedInUser]
) -> None:
    await complete(pending)
    services, merchant_id = pending.services, pending.merchant.new.id
    document, _ = await documents.list_of(services.db, merchant_id)
    path = _at(pending, f"/dossier/documents/{document.id}")
    assert (await people[ConsoleRole.SUPPORT].get(path)).status == 403
    reply = await officer.get(path)
    assert (reply.status, reply.body) == (200, PDF)
    assert reply.headers["content-disposition"].startswith("attachment;")
    assert reply.headers["x-content-type-options"] == "nosniff"
    reads = await services.db.value(
        "SELECT count(*) FROM audit WHERE merchant_id = $1 AND action = 'dossier.document_read'",
        merchant_id,
    )
    assert reads == 1
    assert (await people[ConsoleRole.SUPPORT].get(f"{path}/content")).status == 403
    shown = await officer.get(f"{path}/content")
    assert (shown.status, shown.body) == (200, PDF)
    assert shown.headers["content-disposition"].startswith("inline;")
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    page = (await officer.get(_at(pending, f"/dossier?document={document.id}"))).body.decode()
    assert f'src="/console{path}/content"' in page
    assert "/content" not in (await officer.get(_at(pending, "/dossier"))).body.decode()
    assert (await officer.get(f"/merchants/1/dossier/documents/{2**62}")).status == 404


async def test_only_an_administrator_sets_the_level(
    pending: MerchantDashboard, officer: SignedInUser, people: dict[ConsoleRole, SignedInUser]
) -> None:
    form = {"level": MerchantLevel.VERIFIED.value}
    assert (await officer.post(_at(pending, "/level"), form)).status == 403
    chief = people[ConsoleRole.ADMINISTRATOR]
    await chief.step_up(pending.services)
    assert (await chief.post(_at(pending, "/level"), form)).status == 303
    assert await _now(pending) == ("pending", "verified", None)


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_an_officer_reads_the_checklist_and_asks_for_information(
    pending: MerchantDashboard, officer: SignedInUser, browser: Browser, width: int, scheme: str
) -> None:
    await _submit(pending)
    context = await browser.new_context(
        viewport={"width": width, "height": 844},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    await officer.enter(context)
    page = await context.new_page()
    await page.goto(f"{pending.services.base_url}/console{_at(pending)}")
    assert await accessibility_violations(page) == []
    await page.get_by_role("link", name="View KYC documents").press("Enter")
    assert await accessibility_violations(page) == []
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download Certificate").click()
    download = await started.value
    assert download.suggested_filename.endswith(".pdf")
    await page.get_by_label("Note").fill("Please upload page 2.")
    await page.get_by_role("button", name="Request information").press("Enter")
    await page.get_by_text("Requested.").wait_for()
    assert await accessibility_violations(page) == []
    assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
    await context.close()
    assert (await _now(pending))[2] == DossierState.NEEDS_INFORMATION
