from manilla.kit.database.connections import Database
from manilla.platform import settings as platform
from manilla.services import Services
from tests.support.client import Merchant
from tests.support.freshness import outdate


async def test_site_info_has_exactly_the_specified_fields(merchant: Merchant) -> None:
    reply = await merchant.get("/api/v1/site-info")
    info = reply.json
    assert reply.status == 200
    assert list(info) == [
        *("site_name", "site_logo", "site_url", "gateway_name", "gateway_description"),
        *("features", "environments", "api_version", "status"),
    ]
    assert sorted(info["features"]) == [
        *("global_support", "instant_processing", "mobile_ready", "ssl_secured")
    ]
    assert sorted(info["environments"]) == ["production", "sandbox"]
    assert (info["api_version"], info["status"]) == ("1.0", "active")


async def test_the_logo_url_works(merchant: Merchant) -> None:
    info = (await merchant.get("/api/v1/site-info")).json
    path = info["site_logo"].removeprefix(info["site_url"])
    logo = await merchant.site.send("GET", path)
    assert (logo.status, logo.headers["content-type"]) == (200, "image/svg+xml")


async def test_the_texts_are_configurable(
    merchant: Merchant, db: Database, services: Services
) -> None:
    try:
        await platform.change(db, "site_name", "Kobo & Sons ₦")
        await outdate(services)
        assert (await merchant.get("/api/v1/site-info")).json["site_name"] == "Kobo & Sons ₦"
    finally:
        await platform.change(db, "site_name", "Manilla")
    await outdate(services)
