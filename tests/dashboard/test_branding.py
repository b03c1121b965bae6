"""Merchants set their logo, color and support contact on the checkout page."""

import pytest

from manilla.checkout import accent
from manilla.merchants import branding
from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.merchants.test_logo import picture
from tests.support.client import Site

GIVEN = {
    "accent": "#0B5D4E",
    "support_email": "help@ada.example",
    "support_phone": "0803 000 0000",
}


@pytest.fixture
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def save(dashboard: MerchantDashboard, content: bytes, **changed: str) -> int:
    path, given = "/sandbox/checkout/branding", {**GIVEN, **changed}
    reply = await dashboard.owner.upload(path, given, "logo.png", content, "logo")
    return reply.status


async def test_branding_is_saved_and_the_logo_removed(
    dashboard: MerchantDashboard, services: Services
) -> None:
    merchant_id = dashboard.merchant.new.id
    assert await save(dashboard, picture("PNG")) == 303
    found = await branding.find(services.db, merchant_id)
    assert (found.accent, found.support) == ("0b5d4e", "help@ada.example or 0803 000 0000")
    assert str(found.logo_url) in (await dashboard.owner.get("/sandbox/checkout")).body.decode()
    await dashboard.owner.post("/sandbox/checkout/branding", {**GIVEN, "remove_logo": "on"})
    assert (await branding.find(services.db, merchant_id)).logo_url is None


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("accent", "red", "Enter a color such as"),
        ("accent", "#12345g", "Enter a color such as"),
        ("support_email", "nobody", "Enter an email address."),
        ("support_phone", "javascript:1", "Enter a phone number"),
    ],
)
async def test_wrong_values_are_reported_at_their_field(
    dashboard: MerchantDashboard, services: Services, field: str, text: str, message: str
) -> None:
    reply = await dashboard.owner.post("/sandbox/checkout/branding", {**GIVEN, field: text})
    assert reply.status == 422
    assert message in reply.body.decode()
    assert (await branding.find(services.db, dashboard.merchant.new.id)).accent is None


async def test_a_file_that_is_no_image_is_reported_and_nothing_is_saved(
    dashboard: MerchantDashboard, services: Services
) -> None:
    assert await save(dashboard, b"<svg></svg>") == 422
    assert (await branding.find(services.db, dashboard.merchant.new.id)).accent is None


async def test_the_preview_shows_readable_shades_of_the_color(dashboard: MerchantDashboard) -> None:
    async def preview(color: str) -> str:
        return (
            await dashboard.owner.get(f"/sandbox/checkout/preview?accent={color}")
        ).body.decode()

    yellow = await preview("%23FFD166")
    assert yellow.count("#ffd166") >= 4
    [light, dark] = accent.previews("ffd166")
    assert light.brand != dark.brand == "#ffd166"
    assert f'fill="{light.brand}"' in yellow
    assert "darker or lighter shade" in yellow
    assert accent.DEFAULT in await preview("red")
