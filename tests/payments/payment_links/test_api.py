"""Merchants create, list and disable payment links through the API."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.kit.clock import iso
from manilla.kit.database.connections import Database
from manilla.services import Services
from tests.payments.payment_links.customers import new_link, start
from tests.payments.shop import Shop
from tests.payments.steps import exact, in_environment, setting
from tests.support.client import Merchant, Reply

LINKS = "/api/v1/payment-links"
HOSTED = "providera-ngn"


def request(**changed: Any) -> dict[str, Any]:
    fields = {"title": "Adire cloth", "amount": 1000, "currency_code": "NGN", **changed}
    return {name: value for name, value in fields.items() if value is not None}


async def create(merchant: Merchant, **changed: Any) -> dict[str, Any]:
    reply = await merchant.post(LINKS, request(**changed))
    assert reply.status == 200, reply.body
    created: dict[str, Any] = reply.json
    return created


async def test_a_link_has_an_id_a_url_and_a_status(sandbox: Merchant, services: Services) -> None:
    created = await create(sandbox)
    assert created == {
        "id": created["id"],
        "url": created["url"],
        "status": "active",
    }
    prefix = f"{services.base_url}/pay/"
    assert created["url"].startswith(prefix)
    assert len(created["url"]) <= len(prefix) + 17


async def test_creating_and_disabling_a_link_is_in_the_audit_log(
    sandbox: Merchant, services: Services
) -> None:
    link_id = (await create(sandbox))["id"]
    await sandbox.post(f"{LINKS}/{link_id}/disable", {})
    wanted = AuditFilter(merchant_id=sandbox.new.id, subject=f"payment_link:{link_id}")
    entries = await audit.list_entries(services.db, wanted)
    assert [(entry.action, entry.actor_name) for entry in entries] == [
        ("payment_link.disable", "API"),
        ("payment_link.create", "API"),
    ]


async def test_a_link_comes_back_as_it_was_sent(sandbox: Merchant) -> None:
    expires_at = datetime.now(UTC) + timedelta(days=1)
    sent = {
        "title": "Adire <b>cloth</b>",
        "currency_code": "NGN",
        "description": "Six yards.\nHand-dyed.",
        "expires_at": expires_at.isoformat(),
        "single_use": True,
        "success_redirect": "https://shop.example/thanks?a=1",
    }
    body = json.dumps({**sent, "amount": "@"}).replace('"@"', "90071992547409.93").encode()
    created = (await sandbox.post(LINKS, body)).json
    found = exact(await sandbox.get(f"{LINKS}/{created['id']}"))
    assert found.pop("created_at")
    assert found == {
        **sent,
        **created,
        "amount": Decimal("90071992547409.93"),
        "expires_at": iso(expires_at),
        "paid_count": 0,
        "paid_amount": Decimal("0.00"),
    }


async def test_optional_fields_that_were_not_sent_are_null(sandbox: Merchant) -> None:
    created = await create(sandbox, amount=None)
    found = (await sandbox.get(f"{LINKS}/{created['id']}")).json
    optional = ("amount", "description", "expires_at", "success_redirect")
    assert [found[name] for name in optional] == [None] * 4
    assert found["single_use"] is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", None),
        ("title", "   "),
        ("title", "x" * 101),
        ("title", "two\nlines"),
        ("title", "reversed \u202e text"),
        ("title", 7),
        ("currency_code", None),
        ("currency_code", "NAIRA"),
        ("description", "x" * 2001),
        ("description", "a\u0007b"),
        ("expires_at", "2020-01-01T00:00:00Z"),
        ("expires_at", "2035-01-01T00:00:00"),
        ("expires_at", "tomorrow"),
        ("expires_at", "9999-12-31T23:59:59-12:00"),
        ("expires_at", "0001-01-01T00:00:00+14:00"),
        ("expires_at", 1_900_000_000),
        ("single_use", "yes"),
        ("single_use", 1),
        ("success_redirect", "javascript:alert(1)"),
        ("success_redirect", "shop.example"),
        ("success_redirect", "data:text/html,hello"),
    ],
)
async def test_an_invalid_field_is_named(sandbox: Merchant, field: str, value: Any) -> None:
    reply = await sandbox.post(LINKS, request(**{field: value}))
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert list(reply.json["errors"]) == [field]


@pytest.mark.parametrize("amount", ["0.99", "-5", "10.001", "1e30", '"1000"', "true", "[]"])
async def test_an_invalid_amount_is_rejected(sandbox: Merchant, amount: str) -> None:
    body = json.dumps(request(amount="@")).replace('"@"', amount).encode()
    reply = await sandbox.post(LINKS, body)
    assert (reply.status, reply.code) == (400, "INVALID_AMOUNT")
    assert list(reply.json["errors"]) == ["amount"]


@pytest.mark.parametrize("currency", ["USD", "ngn", "ZZZ"])
async def test_a_currency_that_is_not_enabled_is_rejected(sandbox: Merchant, currency: str) -> None:
    reply = await sandbox.post(LINKS, request(currency_code=currency))
    assert (reply.status, reply.code) == (422, "INVALID_CURRENCY")


async def test_an_amount_above_the_merchants_limit_is_rejected(shop: Shop) -> None:
    async with setting(shop.services, "payment_limits_unverified", "NGN:1000"):
        reply = await shop.merchant.post(LINKS, request(amount=1000.01))
    assert (reply.status, reply.code) == (400, "INVALID_AMOUNT")
    assert list(reply.json["errors"]) == ["amount"]


async def test_a_disabled_link_is_enabled_again(sandbox: Merchant) -> None:
    created = await create(sandbox)
    await sandbox.post(f"{LINKS}/{created['id']}/disable", b"")
    for _ in range(2):
        reply = await sandbox.post(f"{LINKS}/{created['id']}/enable", b"")
        assert (reply.status, reply.json) == (200, created)


async def test_only_the_sent_fields_of_a_link_are_edited(sandbox: Merchant) -> None:
    created = await create(sandbox, description="Six yards.", success_redirect="https://a.example")
    target = f"{LINKS}/{created['id']}"
    before = (await sandbox.get(target)).json
    body = b'{"title": "Ankara", "amount": 2500.50, "success_redirect": null}'
    edited = (await sandbox.call("PATCH", target, body)).json
    wanted = {"title": "Ankara", "amount": 2500.5, "success_redirect": None}
    assert edited == {**before, **wanted}
    assert (await sandbox.call("PATCH", target, b"{}")).json == edited
    assert (await sandbox.call("PATCH", target, b'{"amount": null}')).json["amount"] is None


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b'{"amount": 0.5}', "INVALID_AMOUNT", "amount"),
        (b'{"amount": 10.001}', "INVALID_AMOUNT", "amount"),
        (b'{"title": "two\\nlines"}', "VALIDATION_FAILED", "title"),
        (b'{"expires_at": "2020-01-01T00:00:00Z"}', "VALIDATION_FAILED", "expires_at"),
    ],
)
async def test_an_invalid_edit_changes_nothing(
    sandbox: Merchant, body: bytes, code: str, field: str
) -> None:
    target = f"{LINKS}/{(await create(sandbox))['id']}"
    before = (await sandbox.get(target)).json
    reply = await sandbox.call("PATCH", target, body)
    assert (reply.status, reply.code, list(reply.json["errors"])) == (400, code, [field])
    assert (await sandbox.get(target)).json == before


async def test_a_paid_single_use_link_is_neither_edited_nor_enabled(shop: Shop) -> None:
    link = await new_link(shop, single_use=True)
    await shop.services.db.execute(
        "UPDATE payment_link SET paid_count = 1, paid_minor = 1 WHERE id = $1", link.id
    )
    try:
        target = f"{LINKS}/{link.id}"
        enabled = await shop.merchant.post(f"{target}/enable", b"")
        edited = await shop.merchant.call("PATCH", target, b'{"title": "Other"}')
        assert [each.code for each in (enabled, edited)] == ["PAYMENT_LINK_USED"] * 2
    finally:
        await shop.services.db.execute(
            "UPDATE payment_link SET paid_count = 0, paid_minor = 0 WHERE id = $1", link.id
        )


async def test_a_disabled_link_stays_disabled(sandbox: Merchant) -> None:
    created = await create(sandbox)
    disabled = {**created, "status": "disabled"}
    for _ in range(2):
        reply = await sandbox.post(f"{LINKS}/{created['id']}/disable", b"")
        assert (reply.status, reply.json) == (200, disabled)
    assert (await sandbox.get(f"{LINKS}/{created['id']}")).json["status"] == "disabled"


async def test_other_merchants_and_environments_find_no_link(
    sandbox: Merchant, production: Merchant
) -> None:
    """Links of another merchant or environment get the same response as an unknown id."""
    created = await create(sandbox)
    other = in_environment(sandbox, production.environment)
    replies: list[Reply] = []
    for merchant, link_id in [
        (production, created["id"]),
        (other, created["id"]),
        (sandbox, "PL" + "0" * 29),
        (sandbox, "x"),
        (sandbox, quote("ß%\\'")),
    ]:
        replies.append(await merchant.get(f"{LINKS}/{link_id}"))
        replies.append(await merchant.post(f"{LINKS}/{link_id}/disable", b""))
    assert {reply.status for reply in replies} == {404}
    assert len({reply.body for reply in replies}) == 1
    assert (await sandbox.get(f"{LINKS}/{created['id']}")).json["status"] == "active"


async def test_the_list_has_all_links_newest_first_page_by_page(sandbox: Merchant) -> None:
    created = [(await create(sandbox, title=f"Link {n}"))["id"] for n in range(5)]
    first = (await sandbox.get(f"{LINKS}?limit=3")).json
    await create(sandbox, title="A later one")
    second = (await sandbox.get(f"{LINKS}?limit=3&cursor={first['next_cursor']}")).json
    assert [each["id"] for each in first["data"] + second["data"]] == created[::-1]
    assert second["next_cursor"] is None


async def test_the_list_shows_one_merchant_in_one_environment(
    sandbox: Merchant, production: Merchant
) -> None:
    await create(sandbox)
    for merchant in (production, in_environment(sandbox, production.environment)):
        assert (await merchant.get(LINKS)).json == {"data": [], "next_cursor": None}


async def test_the_list_filters_by_status(shop: Shop) -> None:
    merchant = shop.merchant
    active, disabled = await create(merchant), await create(merchant)
    await merchant.post(f"{LINKS}/{disabled['id']}/disable", b"")
    expired = await new_link(shop, expires_at=datetime.now(UTC))
    used = await new_link(shop, single_use=True)
    started = await start(shop, used)
    await shop.pay(await shop.choose(started, HOSTED))
    await shop.until(started, "success")
    wanted = {
        "active": active["id"],
        "disabled": disabled["id"],
        "expired": expired.id,
        "used": used.id,
    }
    for status, link_id in wanted.items():
        data = (await merchant.get(f"{LINKS}?status={status}")).json["data"]
        assert [(each["id"], each["status"]) for each in data] == [(link_id, status)]


async def test_the_list_shows_what_each_link_has_earned(shop: Shop) -> None:
    link = await new_link(shop, amount_minor=None)
    for amount in ("1500.50", "2"):
        started = await start(shop, link, amount)
        await shop.pay(await shop.choose(started, HOSTED))
        await shop.until(started, "success")
    await start(shop, link, "99")
    [item] = exact(await shop.merchant.get(LINKS))["data"]
    assert (item["paid_count"], item["paid_amount"]) == (2, Decimal("1502.50"))


@pytest.mark.parametrize(
    "query",
    ["status=open", "limit=0", "limit=101", "cursor=x", "from=yesterday", "page=2", "cursor="],
)
async def test_an_invalid_parameter_is_named(sandbox: Merchant, query: str) -> None:
    reply = await sandbox.get(f"{LINKS}?{query}")
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert list(reply.json["errors"]) == [query.partition("=")[0]]


async def test_the_list_filters_by_time(sandbox: Merchant) -> None:
    await create(sandbox)
    later = quote((datetime.now(UTC) + timedelta(minutes=5)).isoformat())
    assert (await sandbox.get(f"{LINKS}?from={later}")).json["data"] == []
    assert len((await sandbox.get(f"{LINKS}?to={later}")).json["data"]) == 1


async def test_from_includes_its_time_and_to_excludes_it(
    sandbox: Merchant, owner: Database
) -> None:
    made = [await create(sandbox) for _ in range(3)]
    # Earlier versions stored the start of the database transaction, not the time in the id.
    await owner.execute(
        "UPDATE payment_link SET created_at = created_at + interval '0.0431 s' WHERE id = $1",
        made[1]["id"],
    )
    for link in made:
        found = (await sandbox.get(f"{LINKS}/{link['id']}")).json
        moment = quote(found["created_at"])
        since = (await sandbox.get(f"{LINKS}?from={moment}")).json["data"]
        until = (await sandbox.get(f"{LINKS}?to={moment}")).json["data"]
        assert found in since
        assert found not in until
        assert len(since) + len(until) == len(made)
