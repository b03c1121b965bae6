"""Signed checkout links: which page a valid link opens, and which page an invalid link shows."""

from datetime import timedelta

import pytest

from manilla.payments.checkout import SandboxOutcome
from manilla.payments.payment import PaymentStatus
from tests.checkout.shop import ACCOUNT, HOSTED, Checkout, Shop
from tests.support.client import Reply
from tests.support.rows import first_short

PAGES = ["", "/methods", "/pay", "/return", "/status"]
ACTIONS = ["/choose", "/sent", "/cancel", "/outcome"]
JSON = {"Accept": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def get(shop: Shop, target: str, headers: dict[str, str] | None = None) -> Reply:
    return await shop.site.send("GET", target, headers or {"Accept": "text/html,*/*"})


async def post(shop: Shop, target: str, body: bytes = b"x=") -> Reply:
    return await shop.site.send("POST", target, FORM, body)


def at(checkout: Checkout, page: str) -> str:
    address, query = checkout.target.split("?")
    return f"{address}{page}?{query}"


def without(checkout: Checkout, field: str) -> str:
    address, query = checkout.target.split("?")
    return f"{address}?{'&'.join(p for p in query.split('&') if not p.startswith(field))}"


@pytest.mark.parametrize("page", PAGES)
async def test_an_altered_link_opens_no_page(shop: Shop, page: str) -> None:
    checkout = await shop.sell()
    reply = await get(shop, at(checkout, page)[:-1])
    assert reply.status == 403


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("body", [b"method=providera-ngn", b"outcome=pay"])
async def test_an_altered_or_expired_link_changes_nothing(
    shop: Shop, action: str, body: bytes
) -> None:
    checkout = await shop.sell_in_sandbox()
    over = shop.link(checkout, ends_in=timedelta(seconds=-1))
    assert (await post(shop, at(checkout, action)[:-1], body)).status == 403
    assert (await post(shop, at(over, action), body)).status == 410
    assert (await shop.payment(checkout)).status is PaymentStatus.PENDING


async def test_every_part_of_a_link_is_signed(shop: Shop) -> None:
    checkout, other = await shop.sell(), await shop.sell()
    longer = checkout.target.replace("expires=", "expires=9")
    exchanged = checkout.target.replace(checkout.trx_id, other.trx_id)
    cut = [without(checkout, "expires"), without(checkout, "signature")]
    for target in (longer, exchanged, *cut, checkout.target.split("?")[0]):
        assert (await get(shop, target)).status == 403
    assert (await get(shop, checkout.target)).status == 200


async def test_an_altered_link_reveals_nothing(shop: Shop) -> None:
    checkout = await shop.sell()
    body = (await get(shop, checkout.target[:-1])).body
    assert b"This link is not valid" in body
    for secret in (b"Ada Stores", b"1,0", b"shop.example", b"sandals", checkout.trx_id.encode()):
        assert secret not in body


async def test_a_valid_link_to_an_unknown_payment_looks_like_an_altered_link(
    shop: Shop,
) -> None:
    checkout = await shop.sell()
    other = checkout.trx_id[:-1] + ("1" if checkout.trx_id.endswith("0") else "0")
    unknown = Checkout(checkout.url.replace(checkout.trx_id, other))
    good = shop.link(unknown, ends_in=timedelta(minutes=1))
    over = shop.link(unknown, ends_in=timedelta(minutes=-1))
    altered = await get(shop, checkout.target[:-1])
    for each in (good, over):
        reply = await get(shop, each.target)
        assert (reply.status, reply.body) == (403, altered.body)


async def test_an_expired_link_is_explained_and_links_back(shop: Shop) -> None:
    checkout = await shop.sell()
    reply = await get(shop, shop.link(checkout, ends_in=timedelta(seconds=-1)).target)
    assert reply.status == 410
    assert "You have not been charged." in reply.body.decode()
    assert f"https://shop.example/cart?trx_id={checkout.trx_id}&amp;" in reply.body.decode()


async def test_an_expired_link_still_shows_a_pending_charge(shop: Shop) -> None:
    checkout = await shop.sell()
    await shop.choose(checkout, ACCOUNT)
    body = (await get(shop, shop.link(checkout, ends_in=timedelta(seconds=-1)).target)).body
    assert b"please do not pay again" in body
    assert b"not been charged" not in body


@pytest.mark.parametrize(
    ("outcome", "words"),
    [(SandboxOutcome.PAY, b"Payment successful"), (SandboxOutcome.CANCEL, b"Payment canceled")],
)
async def test_an_expired_link_shows_the_outcome_of_the_payment(
    shop: Shop, outcome: SandboxOutcome, words: bytes
) -> None:
    checkout = await shop.sell_in_sandbox()
    await shop.pretend(checkout, outcome)
    reply = await get(shop, shop.link(checkout, ends_in=timedelta(seconds=-1)).target)
    assert reply.status == 410
    assert words in reply.body
    assert b"Return to" in reply.body


async def test_a_customer_who_paid_and_returns_after_expiry_sees_the_success(
    shop: Shop,
) -> None:
    checkout = await shop.sell()
    await shop.pay(await shop.choose(checkout, HOSTED))
    over = shop.link(checkout, ends_in=timedelta(seconds=-1))
    reply = await get(shop, at(over, "/return") + "&reference=x")
    assert reply.status == 410
    assert b"Payment successful" in reply.body


async def test_json_is_returned_if_requested(shop: Shop) -> None:
    checkout = await shop.sell()
    over = shop.link(checkout, ends_in=timedelta(seconds=-1))
    altered = await get(shop, checkout.target[:-1], JSON)
    expired = await get(shop, over.target, JSON)
    assert (altered.status, altered.code) == (403, "EXPIRED_SESSION")
    assert (expired.status, expired.code) == (410, "EXPIRED_SESSION")
    assert expired.json["error"] == "This link has expired."
    assert (await get(shop, at(over, "/status"))).code == "EXPIRED_SESSION"


async def test_scripts_can_read_the_status(shop: Shop) -> None:
    checkout = await shop.sell_in_sandbox()
    pending = (await get(shop, at(checkout, "/status"))).json
    assert pending["status"] == "pending"
    assert (await get(shop, at(checkout, "/status"))).json == pending
    await shop.pretend(checkout, SandboxOutcome.DECLINE)
    failed = (await get(shop, at(checkout, "/status"))).json
    assert failed["status"] == "failed"
    assert failed["version"] != pending["version"]


async def test_before_choosing_a_method_there_is_nothing_to_pay(shop: Shop) -> None:
    checkout = await shop.sell()
    reply = await get(shop, at(checkout, "/pay"))
    assert (reply.status, reply.headers["location"]) == (303, checkout.target.lower())


@pytest.mark.parametrize(
    "body", first_short([b"", b"method=", b"method=nonsense", b"\xff=\xff", b"method=%FF"])
)
async def test_choosing_no_method_is_rejected_with_a_reason(shop: Shop, body: bytes) -> None:
    checkout = await shop.sell()
    reply = await post(shop, at(checkout, "/choose"), body)
    assert reply.status == 422
    assert b'role="alert"' in reply.body


@pytest.mark.parametrize("outcome", [b"", b"outcome=", b"outcome=fortune", b"outcome=pay"])
async def test_a_production_payment_cannot_be_simulated(shop: Shop, outcome: bytes) -> None:
    checkout = await shop.sell()
    reply = await post(shop, at(checkout, "/outcome"), outcome)
    assert reply.status in (303, 422)
    assert (await shop.payment(checkout)).status is PaymentStatus.PENDING


async def test_pages_are_not_cached_indexed_or_framed(shop: Shop) -> None:
    checkout = await shop.sell()
    over = shop.link(checkout, ends_in=timedelta(seconds=-1))
    targets = [at(checkout, page) for page in PAGES]
    for target in (*targets, checkout.target[:-1], over.target):
        reply = await get(shop, target)
        assert reply.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
        if reply.headers.get("content-type", "").startswith("text/html") and reply.status != 303:
            assert b'<meta name="robots" content="noindex">' in reply.body


async def test_static_files_may_be_cached_forever(shop: Shop) -> None:
    for name in ("checkout.css", "checkout.js"):
        reply = await get(shop, f"/static/checkout/{name}")
        assert reply.status == 200
        assert "immutable" in reply.headers["cache-control"]
