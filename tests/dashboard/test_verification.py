"""A merchant fills in its dossier in the dashboard, adds documents and submits the dossier."""

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser

from manilla.beneficiaries.beneficiary import Beneficiary
from manilla.compliance import documents, dossiers, reviews
from manilla.compliance.dossiers import DossierState
from manilla.dashboard.uploads import UPLOADS_A_MINUTE
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantUpdate
from manilla.methods.method import MethodKind
from manilla.people.roles import Role
from manilla.services import Services
from manilla.settlements import accounts
from manilla.settlements.accounts import NewSettlementAccount
from tests.checkout.page_checks import accessibility_violations
from tests.compliance.files import JPEG, PDF, PNG, SVG
from tests.dashboard.bulk_upload import upload as upload_payouts
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.support.client import Reply, Site
from tests.web.signed_in_user import member

PAGE = "/verification"
FILES = f"{PAGE}/documents"
SECTIONS = {
    "business": {
        "legal_form": "company",
        "legal_name": "Ada Foods Limited",
        "registration_number": "rc 123-456",
    },
    "address": {"address": "1 Marina\r\nLagos"},
    "directors": {"directors": "Ada Obi\r\nBola Ade"},
    "website": {"website": "https://adafoods.example"},
    "volume": {"volume": "1,500,000"},
}


@pytest.fixture
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def complete(dashboard: MerchantDashboard) -> None:
    services, merchant_id = dashboard.services, dashboard.merchant.new.id
    for section, fields in SECTIONS.items():
        reply = await dashboard.owner.post(f"{PAGE}/sections/{section}", fields)
        assert reply.status == 303, reply.body
    for purpose, content in (("registration", PDF), ("identity", JPEG)):
        assert (await _upload(dashboard, content, purpose)).status == 303
    change = MerchantUpdate(bvn="22222222222")
    await merchants.change(services.db, services.keyring, merchant_id, change)
    method = services.methods.by_code(MethodKind.WITHDRAW, "providera_ngn_transfer")
    assert method is not None
    who = Beneficiary({"bank_code": "058", "account_number": "0123456789"})
    await accounts.choose(
        services.db,
        Tenant(merchant_id, Environment.PRODUCTION),
        NewSettlementAccount(method, who, "Guaranty Trust Bank", "ADA FOODS LIMITED"),
        by="ada@example.com",
        wait=timedelta(),
    )


async def _upload(
    dashboard: MerchantDashboard, content: bytes, purpose: str = "other", name: str = "a.png"
) -> Reply:
    return await dashboard.owner.upload(FILES, {"purpose": purpose}, name, content)


async def _state(dashboard: MerchantDashboard) -> str | None:
    found = await dossiers.find(dashboard.services.db, dashboard.merchant.new.id)
    return found.state if found else None


async def test_sections_are_saved_one_at_a_time_and_counted(dashboard: MerchantDashboard) -> None:
    page = (await dashboard.owner.get(PAGE)).body.decode()
    assert "0 of 8 complete" in page
    for number, (section, fields) in enumerate(SECTIONS.items(), start=1):
        saved = await dashboard.owner.post(f"{PAGE}/sections/{section}", fields)
        assert f"{number} of 8 complete" in await dashboard.owner.follow(saved)
    found = await dossiers.find(dashboard.services.db, dashboard.merchant.new.id)
    assert found is not None
    assert found.registration_number == "RC123456"
    assert found.address == "1 Marina, Lagos"
    assert found.directors == ["Ada Obi", "Bola Ade"]
    assert str(found.expected_volume) == "₦1,500,000.00"
    form = (await dashboard.owner.get(f"{PAGE}/sections/directors")).body.decode()
    assert "Ada Obi\nBola Ade" in form


@pytest.mark.parametrize(
    ("section", "changed", "reason"),
    [
        ("business", {"legal_form": "empire"}, "Choose a legal form."),
        ("business", {"registration_number": "none"}, "such as RC123456"),
        ("business", {"legal_name": "a\x07b"}, "Enter the registered name"),
        ("address", {"address": " \r\n "}, "Enter the address"),
        ("directors", {"directors": "\n".join(["Ada"] * 21)}, "1 to 20 names"),
        ("directors", {"directors": "x" * 101}, "at most 100 printable"),
        ("website", {"website": "javascript:alert(1)"}, "starts with https:// or http://"),
        ("website", {"website": ""}, "starts with https:// or http://"),
        ("volume", {"volume": "0"}, "above zero"),
        ("volume", {"volume": "lots"}, "amount"),
    ],
)
async def test_bad_values_are_rejected_at_their_field(
    dashboard: MerchantDashboard, section: str, changed: dict[str, str], reason: str
) -> None:
    fields = {**SECTIONS[section], **changed}
    reply = await dashboard.owner.post(f"{PAGE}/sections/{section}", fields)
    assert reply.status == 400
    assert reason in reply.body.decode()
    assert await _state(dashboard) is None


async def test_a_business_without_a_website_can_complete_the_section(
    dashboard: MerchantDashboard,
) -> None:
    fields = {"website": "", "has_no_website": "on"}
    saved = await dashboard.owner.post(f"{PAGE}/sections/website", fields)
    assert "1 of 8 complete" in await dashboard.owner.follow(saved)


@pytest.mark.parametrize("section", ["bvn", "documents", "nothing", "BUSINESS"])
async def test_only_sections_with_a_form_have_a_page(
    dashboard: MerchantDashboard, section: str
) -> None:
    assert (await dashboard.owner.get(f"{PAGE}/sections/{section}")).status == 404


@pytest.mark.parametrize(
    ("name", "content", "status", "reason"),
    [
        ("cac.pdf", b"", 400, "The file is empty."),
        ("photo.png", SVG, 400, "The file&#39;s content counts"),
        ("cac.pdf", b"%PDF-1.4\n<html>not a document</html>", 400, "not a complete PDF"),
        ("cac.pdf", PDF + bytes(5 * 1024 * 1024), 400, "larger than 5 MB"),
        ("cac.pdf", PDF + bytes(11 * 1024 * 1024), 400, "larger than 5 MB"),
        ("", PNG, 400, "not valid UTF-8"),
        ("", b"", 400, "Choose a file."),
    ],
)
async def test_a_file_that_is_not_a_document_is_rejected(
    dashboard: MerchantDashboard, name: str, content: bytes, status: int, reason: str
) -> None:
    reply = await _upload(dashboard, content, name=name)
    assert reply.status == status
    assert reason in reply.body.decode()
    assert await documents.list_of(dashboard.services.db, dashboard.merchant.new.id) == []


async def test_a_large_document_is_never_written_to_a_temporary_file(
    dashboard: MerchantDashboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Simulate that the server cannot create a temporary file.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError):
        tempfile.TemporaryFile()  # noqa: SIM115
    large = PDF.replace(b"xref", b"% " + b"secret " * 600_000 + b"\nxref", 1)
    assert (await _upload(dashboard, large, name="large.pdf")).status == 303
    [document] = await documents.list_of(dashboard.services.db, dashboard.merchant.new.id)
    reply = await dashboard.owner.get(f"{FILES}/{document.id}")
    assert reply.body == large


async def test_a_document_is_downloaded_and_never_displayed(dashboard: MerchantDashboard) -> None:
    await _upload(dashboard, PNG, name='../"evil\\x.html')
    [document] = await documents.list_of(dashboard.services.db, dashboard.merchant.new.id)
    reply = await dashboard.owner.get(f"{FILES}/{document.id}")
    assert reply.body == PNG
    disposition = f'attachment; filename="{document.download_name}"'
    assert reply.headers["content-disposition"] == disposition
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-type"] == "image/png"
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["cache-control"] == "no-store"


async def test_other_merchants_and_other_roles_get_no_document(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    await _upload(dashboard, PNG)
    [document] = await documents.list_of(services.db, dashboard.merchant.new.id)
    other = await new_dashboard(services, site)
    assert (await other.owner.get(f"{FILES}/{document.id}")).status == 404
    assert (await other.owner.post(f"{FILES}/{document.id}/remove", {})).status == 404
    for role in (Role.VIEWER, Role.DEVELOPER, Role.FINANCE):
        user = await member(services, site, dashboard.merchant.new.id, role)
        assert (await user.get(f"{FILES}/{document.id}")).status == 403
        assert (await user.upload(FILES, {"purpose": "other"}, "a.png", PNG)).status == 403
    assert len(await documents.list_of(services.db, dashboard.merchant.new.id)) == 1


async def test_uploads_are_limited_in_number_and_rate(dashboard: MerchantDashboard) -> None:
    replies = [(await _upload(dashboard, PNG)).status for _ in range(11)]
    assert replies == [303] * 10 + [400]
    more = [(await _upload(dashboard, PNG)).status for _ in range(10)]
    assert more[-1] == 429
    assert len(await documents.list_of(dashboard.services.db, dashboard.merchant.new.id)) == 10


async def test_payout_files_count_as_uploads_too(dashboard: MerchantDashboard) -> None:
    for _ in range(5 * UPLOADS_A_MINUTE):
        reply = await upload_payouts(dashboard, b"no payouts", method=1)
        if reply.status == 429:
            break
        assert reply.status == 422  # the method does not exist
    assert b"Too many uploads" in reply.body


async def test_logos_count_as_uploads_too(dashboard: MerchantDashboard) -> None:
    for _ in range(5 * UPLOADS_A_MINUTE):
        given = {"accent": "#0b5d4e", "support_email": "", "support_phone": ""}
        reply = await dashboard.owner.upload(
            "/production/checkout/branding", given, "a.png", b"no", "logo"
        )
        if reply.status == 429:
            break
        assert reply.status == 422  # the file is no image
    assert b"Too many uploads" in reply.body


async def test_concurrent_uploads_stay_within_the_limit(dashboard: MerchantDashboard) -> None:
    await asyncio.gather(*(_upload(dashboard, PNG) for _ in range(13)))
    assert len(await documents.list_of(dashboard.services.db, dashboard.merchant.new.id)) == 10


async def test_an_incomplete_dossier_cannot_be_submitted(dashboard: MerchantDashboard) -> None:
    await dashboard.owner.post(f"{PAGE}/sections/address", SECTIONS["address"])
    reply = await dashboard.owner.post(f"{PAGE}/submit", {})
    page = await dashboard.owner.follow(reply)
    assert "Complete these sections first: Legal form and registration, Directors" in page
    assert await _state(dashboard) == DossierState.DRAFT


async def test_a_submitted_dossier_cannot_be_changed_until_information_is_asked_for(
    dashboard: MerchantDashboard,
) -> None:
    services, merchant_id = dashboard.services, dashboard.merchant.new.id
    await complete(dashboard)
    page = await dashboard.owner.follow(await dashboard.owner.post(f"{PAGE}/submit", {}))
    assert "8 of 8 complete" in page
    assert "The operator is reviewing your information." in page
    assert await _state(dashboard) == DossierState.SUBMITTED
    reply = await dashboard.owner.post(f"{PAGE}/sections/address", {"address": "Elsewhere"})
    assert reply.status == 409
    assert (await _upload(dashboard, PNG)).status == 409
    [first, _] = await documents.list_of(services.db, merchant_id)
    await dashboard.owner.post(f"{FILES}/{first.id}/remove", {})
    assert len(await documents.list_of(services.db, merchant_id)) == 2

    await reviews.decide_dossier(
        *(services.db, services.keyring, merchant_id, DossierState.NEEDS_INFORMATION),
        "Send the <b>second</b> page.",
        was=DossierState.SUBMITTED,
    )
    page = (await dashboard.owner.get(PAGE)).body.decode()
    assert "Send the &lt;b&gt;second&lt;/b&gt; page." in page
    assert (await _upload(dashboard, PNG)).status == 303
    await dashboard.owner.post(f"{PAGE}/submit", {})
    assert await _state(dashboard) == DossierState.SUBMITTED
    assert len(await dossiers.history(services.db, merchant_id)) == 3


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_an_owner_fills_in_and_submits_the_dossier(
    dashboard: MerchantDashboard, browser: Browser, width: int, scheme: str
) -> None:
    await complete(dashboard)
    async with dashboard.open_page(browser, PAGE, width=width) as page:
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert await accessibility_violations(page) == []
        await page.get_by_role("link", name="Address").press("Enter")
        await page.get_by_label("Business address").fill("2 Broad Street, Lagos")
        assert await accessibility_violations(page) == []
        await page.get_by_role("button", name="Save").press("Enter")
        await page.get_by_text("2 Broad Street, Lagos").wait_for()
        await page.get_by_role("link", name="Documents").click()
        file = {"name": "big.pdf", "mimeType": "application/pdf", "buffer": bytes(6 * 1024 * 1024)}
        await page.get_by_label("File").set_input_files(file)  # type: ignore[arg-type]
        message = await page.get_by_label("File").evaluate("each => each.validationMessage")
        assert message == "The file is larger than 5 MB."
        small = {"name": "bill.png", "mimeType": "image/png", "buffer": PNG}
        await page.get_by_label("File").set_input_files(small)  # type: ignore[arg-type]
        await page.get_by_label("Document type").select_option("address")
        await page.get_by_role("button", name="Upload").press("Enter")
        await page.get_by_text("Document saved.").wait_for()
        assert await accessibility_violations(page) == []
        await page.goto(f"{dashboard.services.base_url}/dashboard{PAGE}")
        await page.get_by_role("button", name="Submit").press("Enter")
        await page.get_by_text("The operator is reviewing your information.").wait_for()
        wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide
    assert await _state(dashboard) == DossierState.SUBMITTED
