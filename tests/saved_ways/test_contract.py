"""The names, statuses and codes of saved ways that merchants depend on."""

import pytest

from tests.payments.orders import INITIATE, VERIFY
from tests.payments.steps import complete
from tests.saved_ways.steps import Lender

WAY_FIELDS = {"id", "kind", "label", "expires"}


async def saved(tester: Lender, customer: str) -> tuple[str, str]:
    """Returns the ids of a new way and of the payment that saved it."""
    started = await tester.start(customer)
    await complete(tester.shop.services, tester.merchant, started.trx_id)
    [way] = await tester.ways(customer)
    return way["id"], started.trx_id


async def test_the_payment_that_saves_a_card_names_it(tester: Lender) -> None:
    customer = await tester.customer()
    way_id, trx_id = await saved(tester, customer)
    [way] = await tester.ways(customer)
    assert set(way) >= WAY_FIELDS
    assert way_id.startswith("WAY")
    assert way["kind"] == "card"
    verified = (await tester.merchant.get(VERIFY + trx_id)).json
    assert verified["saved_way"] == {name: way[name] for name in WAY_FIELDS}
    [notice] = await tester.notices(trx_id)
    assert notice["data"]["saved_way"] == verified["saved_way"]


async def test_a_charge_is_described_as_a_payment(tester: Lender) -> None:
    customer = await tester.customer()
    way_id, _ = await saved(tester, customer)
    charged = await tester.charge(customer, way_id, description="Loan 17, May")
    assert charged.status == 200, charged.body
    first = await tester.merchant.post(INITIATE, tester.body())
    assert set(charged.json) == {"trx_id", "status", "info"}
    assert set(first.json["info"]) <= set(charged.json["info"])
    assert charged.json["status"] == "success"
    verified = (await tester.merchant.get(VERIFY + charged.json["trx_id"])).json
    assert verified["saved_way"]["id"] == way_id
    assert verified["customer_reference"] == customer


async def test_a_charge_that_the_customer_must_confirm_has_a_page(tester: Lender) -> None:
    customer = await tester.customer()
    way_id, _ = await saved(tester, customer)
    charged = await tester.charge(customer, way_id, payment_amount=666.64)
    assert (charged.status, charged.json["status"]) == (200, "pending")
    assert charged.json["customer_action_url"].startswith("http")


@pytest.mark.parametrize(
    ("amount", "code", "kind"),
    [(666.62, "insufficient_funds", "soft"), (666.65, "expired_card", "hard")],
)
async def test_a_decline_has_status_200(
    tester: Lender, amount: float, code: str, kind: str
) -> None:
    customer = await tester.customer()
    way_id, _ = await saved(tester, customer)
    charged = await tester.charge(customer, way_id, payment_amount=amount)
    assert (charged.status, charged.json["status"]) == (200, "failed")
    decline = charged.json["decline"]
    assert (decline["code"], decline["kind"]) == (code, kind)
    assert ("retry_after" in decline) == (kind == "soft")


async def test_a_revoked_way_is_unusable_and_stays_listed(tester: Lender) -> None:
    customer = await tester.customer()
    way_id, _ = await saved(tester, customer)
    for _ in range(2):
        path = f"/api/v1/customers/{customer}/ways/{way_id}"
        revoked = await tester.merchant.call("DELETE", path)
        assert (revoked.status, revoked.json["status"]) == (200, "revoked")
    charged = await tester.charge(customer, way_id)
    assert (charged.status, charged.code) == (422, "way_unusable")
    assert [each["status"] for each in await tester.ways(customer)] == ["revoked"]
