"""Which pages browsers may show in a frame, and the script that opens checkout in a dialog."""

import base64
import hashlib

import pytest

from manilla.kit.environment import Environment
from manilla.merchants import checkout_origins
from manilla.payments.checkout import SandboxOutcome
from manilla.web.embed import checkout_script
from tests.checkout.shop import Checkout, Shop
from tests.support.client import Merchant, Reply

ORIGINS = ["https://shop.example", "https://shop.example:8443"]

# Shops rely on these hashes. A changed script needs a new version; a published hash never changes.
PUBLISHED = {
    "1.0.0": "sha384-RFXWEEIZVDEl5gBlp0ay4wkzrFneGjpgSOUn5pBwKUQOCokfbQ00dBmvNvHdwtJE",
    "1.0.1": "sha384-P4661WChIulO+JwH4Ehh6HT2YL2har/8VuoEp0kUxyhwco0V0r/lgIl0dQl+tnl8",
}


async def allow(shop: Shop, merchant: Merchant, *origins: str) -> None:
    key = merchant.new.id, merchant.environment
    await checkout_origins.change(shop.services.db, *key, origins)
    await shop.services.watch.look()


def frame_headers(reply: Reply) -> tuple[str, str | None]:
    """Returns who may frame a page, from the headers for new and for old browsers."""
    policy = reply.headers["content-security-policy"]
    return policy.partition("frame-ancestors ")[2], reply.headers.get("x-frame-options")


FORBIDDEN = ("'none'", "deny")


async def headers_at(shop: Shop, checkout: Checkout, page: str = "") -> tuple[str, str | None]:
    target = Checkout(checkout.at(page)) if page else checkout
    return frame_headers(await shop.site.send("GET", target.target))


async def test_checkout_may_be_framed_only_by_the_merchants_origins(shop: Shop) -> None:
    merchant = await shop.new_merchant(Environment.SANDBOX)
    checkout = await shop.sell(merchant)
    assert await headers_at(shop, checkout) == FORBIDDEN
    await allow(shop, merchant, *ORIGINS)
    for page in ("", "methods"):
        assert await headers_at(shop, checkout, page) == (" ".join(ORIGINS), None)
    await shop.pretend(checkout, SandboxOutcome.PAY)
    for page in ("", "receipt"):
        assert await headers_at(shop, checkout, page) == (" ".join(ORIGINS), None)
    await allow(shop, merchant)
    assert await headers_at(shop, checkout) == FORBIDDEN


async def test_an_origin_of_one_environment_or_merchant_is_not_allowed_in_another(
    shop: Shop,
) -> None:
    merchant = await shop.new_merchant(Environment.SANDBOX)
    await allow(shop, merchant, *ORIGINS)
    in_production = Merchant(merchant.site, merchant.new, Environment.PRODUCTION)
    assert await headers_at(shop, await shop.sell(in_production)) == FORBIDDEN
    assert await headers_at(shop, await shop.sell_in_sandbox()) == FORBIDDEN


@pytest.mark.parametrize(
    "path",
    ["/", "/docs", "/dashboard/sign-in", "/console/sign-in", "/nothing", "/static/logo.svg"],
)
async def test_other_pages_refuse_every_frame(shop: Shop, path: str) -> None:
    assert frame_headers(await shop.site.send("GET", path)) == FORBIDDEN


async def test_an_altered_link_refuses_every_frame(shop: Shop) -> None:
    merchant = await shop.new_merchant(Environment.SANDBOX)
    await allow(shop, merchant, *ORIGINS)
    checkout = await shop.sell(merchant)
    reply = await shop.site.send("GET", checkout.target[:-1] + "x")
    assert (reply.status, frame_headers(reply)) == (403, FORBIDDEN)


async def test_only_pages_that_may_be_framed_load_the_frames_script(shop: Shop) -> None:
    merchant = await shop.new_merchant(Environment.SANDBOX)
    checkout = await shop.sell(merchant)
    assert b"embedded.js" not in (await shop.site.send("GET", checkout.target)).body
    await allow(shop, merchant, *ORIGINS)
    page = (await shop.site.send("GET", checkout.target)).body.decode()
    assert "embedded.js" in page
    assert f'data-trx-id="{checkout.trx_id}" data-status="pending"' in page


async def test_every_version_of_the_script_keeps_its_hash(shop: Shop) -> None:
    assert PUBLISHED.keys() == set(checkout_script.versions())
    for version, published in PUBLISHED.items():
        reply = await shop.site.send("GET", f"/embed/{version}/checkout.js")
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/javascript")
        assert "immutable" in reply.headers["cache-control"]
        assert reply.headers["access-control-allow-origin"] == "*"
        assert reply.headers["cross-origin-resource-policy"] == "cross-origin"
        digest = base64.b64encode(hashlib.sha384(reply.body).digest()).decode()
        assert f"sha384-{digest}" == published == checkout_script.integrity(version)
        assert f'version: "{version}"'.encode() in reply.body
    assert (await shop.site.send("GET", "/embed/0.0.1/checkout.js")).status == 404


async def test_the_documentation_shows_the_hash_of_the_script_that_is_served(shop: Shop) -> None:
    page = (await shop.site.send("GET", "/docs/embedded-checkout")).body.decode()
    assert page.count(checkout_script.integrity()) == 2
    assert f"/embed/{checkout_script.VERSION}/checkout.js" in page
