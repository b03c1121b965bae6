"""The API's endpoints for customers, through real HTTP requests with signatures."""

import asyncio
import json
from typing import Any

import pytest

from manilla.api.customers import CUSTOMERS
from manilla.customers import store
from manilla.customers.customer import PersonalNumbers
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.merchants.rights import Right
from manilla.services import Services
from tests.api.test_keys import new_key
from tests.support.client import Merchant, Reply, Site, new_merchant

ADA = {
    "reference": "pupil-17",
    "name": "Ada Obi",
    "email": "ada@example.com",
    "phone": "+2348012345678",
    "bvn": "22222222222",
}


async def create(merchant: Merchant, **changed: Any) -> Reply:
    return await merchant.post(CUSTOMERS, ADA | changed)


async def patch(merchant: Merchant, reference: str, body: Any) -> Reply:
    return await merchant.call("PATCH", f"{CUSTOMERS}/{reference}", json.dumps(body).encode())


@pytest.fixture
async def merchant(sandbox: Merchant) -> Merchant:
    return sandbox


async def test_a_customer_is_returned_without_the_numbers_of_the_person(
    services: Services, merchant: Merchant
) -> None:
    reply = await create(merchant)
    assert reply.status == 200, reply.body
    created = reply.json
    assert {**created, "id": "", "created_at": "", "updated_at": ""} == {
        "reference": "pupil-17",
        "id": "",
        "name": "Ada Obi",
        "email": "ada@example.com",
        "phone": "+2348012345678",
        "bvn_given": True,
        "nin_given": False,
        "ipn_url": None,
        "status": "active",
        "created_at": "",
        "updated_at": "",
        "environment": "sandbox",
    }
    assert b"22222222222" not in reply.body
    tenant = Tenant(merchant.new.id, merchant.environment)
    customer = await store.of_tenant(services.db, tenant, "pupil-17")
    assert customer.bvn_sealed is not None
    assert b"22222222222" not in customer.bvn_sealed
    assert customer.personal_numbers(services.keyring) == PersonalNumbers(bvn="22222222222")


async def test_the_same_body_again_returns_the_same_customer(merchant: Merchant) -> None:
    first, second = await create(merchant), await create(merchant)
    assert second.json == first.json


@pytest.mark.parametrize("changed", [{"name": "Eve"}, {"bvn": "22222222223"}, {"bvn": None}])
async def test_another_body_with_the_same_reference_is_rejected(
    merchant: Merchant, changed: dict[str, Any]
) -> None:
    await create(merchant)
    reply = await create(merchant, **changed)
    assert (reply.status, reply.code) == (422, "DUPLICATE_REFERENCE")
    assert (await merchant.get(f"{CUSTOMERS}/pupil-17")).json["name"] == "Ada Obi"


async def test_one_of_two_concurrent_customers_with_one_reference_is_created(
    merchant: Merchant,
) -> None:
    names = [f"Person {number}" for number in range(8)]
    replies = await asyncio.gather(*(create(merchant, name=name) for name in names))
    won = [reply.json["name"] for reply in replies if reply.status == 200]
    assert len(won) == 1
    lost = {(reply.status, reply.code) for reply in replies if reply.status != 200}
    assert lost == {(422, "DUPLICATE_REFERENCE")}
    listed = (await merchant.get(CUSTOMERS)).json["data"]
    assert [each["name"] for each in listed] == won


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"reference": "a/b"}, "reference"),
        ({"reference": ".."}, "reference"),
        ({"reference": ""}, "reference"),
        ({"reference": "x" * 61}, "reference"),
        ({"name": " "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"email": "no address"}, "email"),
        ({"phone": "080-1234"}, "phone"),
        ({"bvn": "1234567890"}, "bvn"),
        ({"bvn": 22222222222}, "bvn"),
        ({"nin": "1234567890a"}, "nin"),
        ({"nin": "١٢٣٤٥٦٧٨٩٠١"}, "nin"),
        ({"ipn_url": "ftp://shop.example"}, "ipn_url"),
    ],
)
async def test_invalid_fields_are_named(
    merchant: Merchant, changed: dict[str, Any], field: str
) -> None:
    reply = await create(merchant, **changed)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert set(reply.json["errors"]) == {field}
    assert (await merchant.get(CUSTOMERS)).json["data"] == []


async def test_a_name_can_be_in_any_script(merchant: Merchant) -> None:
    reply = await create(merchant, name="عائشة محمد")
    assert reply.json["name"] == "عائشة محمد"


async def test_only_sent_fields_change_and_null_removes(merchant: Merchant) -> None:
    await create(merchant)
    reply = await patch(merchant, "pupil-17", {"email": None, "nin": "12345678901"})
    assert reply.status == 200, reply.body
    changed = reply.json
    assert (changed["name"], changed["email"]) == ("Ada Obi", None)
    assert (changed["bvn_given"], changed["nin_given"]) == (True, True)
    reply = await patch(merchant, "pupil-17", {"bvn": None})
    assert reply.json["bvn_given"] is False
    reply = await patch(merchant, "pupil-17", {"name": None})
    assert (reply.status, set(reply.json["errors"])) == (400, {"name"})


async def test_a_customer_can_be_disabled_and_enabled(merchant: Merchant) -> None:
    await create(merchant)
    for _ in range(2):
        reply = await merchant.post(f"{CUSTOMERS}/pupil-17/disable", b"")
        assert (reply.status, reply.json["status"]) == (200, "disabled")
    listed = (await merchant.get(f"{CUSTOMERS}?status=active")).json["data"]
    assert listed == []
    reply = await merchant.post(f"{CUSTOMERS}/pupil-17/enable", b"")
    assert reply.json["status"] == "active"


async def test_a_customer_of_another_merchant_or_environment_is_unknown(
    services: Services, site: Site, merchant: Merchant
) -> None:
    await create(merchant)
    other = await new_merchant(site, services.db, services.keyring)
    live = Merchant(merchant.site, merchant.new, Environment.PRODUCTION)
    replies = [
        await caller.get(f"{CUSTOMERS}/{reference}")
        for caller, reference in ((other, "pupil-17"), (live, "pupil-17"), (merchant, "pupil-18"))
    ]
    assert {(reply.status, reply.code) for reply in replies} == {(404, "CUSTOMER_NOT_FOUND")}
    assert len({reply.body for reply in replies}) == 1
    assert (await create(live)).status == 200


@pytest.mark.parametrize("search", ["pupil-17", "ADA@example.com", "%2B2348012345678", "da+ob"])
async def test_a_customer_is_found_by_what_a_person_may_know(
    merchant: Merchant, search: str
) -> None:
    await create(merchant)
    await create(merchant, reference="pupil-18", name="Eve", email=None, phone=None, bvn=None)
    listed = (await merchant.get(f"{CUSTOMERS}?search={search}")).json["data"]
    assert [each["reference"] for each in listed] == ["pupil-17"]


async def test_customers_are_listed_in_pages(merchant: Merchant) -> None:
    for number in range(5):
        await create(merchant, reference=f"c{number}")
    found: list[str] = []
    cursor = ""
    while True:
        reply = await merchant.get(f"{CUSTOMERS}?limit=2{cursor}")
        found += [each["reference"] for each in reply.json["data"]]
        if reply.json["next_cursor"] is None:
            break
        cursor = f"&cursor={reply.json['next_cursor']}"
    assert found == ["c4", "c3", "c2", "c1", "c0"]


async def test_a_key_needs_the_right_to_manage_customers(
    services: Services, merchant: Merchant
) -> None:
    reader = await new_key(services, merchant, Right.READ, name="Reader")
    manager = await new_key(services, merchant, Right.MANAGE, name="Manager")
    assert (await create(reader)).code == "INSUFFICIENT_PERMISSION"
    assert (await create(manager)).status == 200
    assert (await reader.get(CUSTOMERS)).status == 200
    assert (await manager.get(CUSTOMERS)).code == "INSUFFICIENT_PERMISSION"


@pytest.mark.long
async def test_ten_thousand_customers_are_created_and_found(
    services: Services, merchant: Merchant
) -> None:
    async def some(first: int) -> None:
        for number in range(first, first + 100):
            caller = Merchant(merchant.site.from_new_ip(), merchant.new, merchant.environment)
            reply = await caller.post_until_served(
                CUSTOMERS, ADA | {"reference": f"c{number}", "name": f"Person {number}"}
            )
            assert reply.status == 200, reply.body

    for start in range(0, 10_000, 2_000):
        await asyncio.gather(*(some(start + 100 * each) for each in range(20)))
    assert await services.db.number("SELECT count(*) FROM customer") >= 10_000
    listed = (await merchant.get(f"{CUSTOMERS}?search=c7777")).json["data"]
    assert [each["reference"] for each in listed] == ["c7777"]
