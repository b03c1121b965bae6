"""The lookup command and the console find every id that the API returns."""

from typing import Any

import pytest

from manilla.kit import ids
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.lookup.find import find
from manilla.merchants.merchants import CommissionBearer
from manilla.notify import notification_ids
from manilla.payments import listing
from manilla.payments.listing import PaymentFilter
from manilla.refunds import initiate
from tests.payments.shop import Shop
from tests.web.signed_in_user import SignedInUser, administrator


@pytest.fixture
async def operator(shop: Shop) -> SignedInUser:
    email = f"{ids.new_request_id()}@console.example"
    return await administrator(shop.services, shop.merchant.site, email)


async def _paid(shop: Shop) -> dict[str, str]:
    """Creates a paid and partly refunded payment. Returns the id of each type of record."""
    await shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await shop.until(started, "success")
    verified = await shop.verify(started)
    refund = await initiate.start(shop.services.db, started.trx_id, "10", "One book returned")
    return {
        "payment": started.trx_id,
        "charge": charge.reference,
        "commission": verified.json["commission"]["commission_trx_id"],
        "refund": refund.trx_id,
    }


async def _notification_id(shop: Shop, trx_id: str) -> str:
    found: str = await shop.services.db.value(
        "SELECT id FROM notification WHERE merchant_id = $1 AND trx_id = $2",
        *(shop.merchant.new.id, trx_id),
    )
    return found


async def test_every_id_of_a_payment_finds_it(shop: Shop, operator: SignedInUser) -> None:
    named = await _paid(shop)
    for kind, identifier in named.items():
        found = await find(shop.services.db, identifier)
        assert found is not None
        assert (found.kind, found.id, found.trx_id) == (kind, identifier, named["payment"])
        wanted = PaymentFilter(search=identifier)
        listed = await listing.payments(shop.services.db, Everyone(), wanted)
        assert [payment.trx_id for payment in listed.rows] == [named["payment"]]
        page = await operator.get(f"/transactions?q={identifier}")
        assert (page.status, named["payment"] in page.body.decode()) == (200, True)
        page = await operator.get(f"/transactions/{identifier}")
        assert page.status == 200 or page.location.endswith(f"/transactions/{named['payment']}")


async def test_a_commission_within_the_payments_posting_is_found(
    sandbox_shop: Shop,
) -> None:
    started = await sandbox_shop.start()
    commission = trx_ids.new(sandbox_shop.merchant.new.id)
    await sandbox_shop.services.db.execute(
        "UPDATE payment SET commission_trx_id = $3 WHERE merchant_id = $1 AND trx_id = $2",
        *(sandbox_shop.merchant.new.id, started.trx_id, commission),
    )
    found = await find(sandbox_shop.services.db, commission)
    assert found is not None
    assert (found.kind, found.trx_id) == ("commission", started.trx_id)


async def test_notifications_requests_and_adjustments_are_found_by_id(
    shop: Shop, operator: SignedInUser
) -> None:
    db, named = shop.services.db, await _paid(shop)
    notification = await _notification_id(shop, named["payment"])
    refused = await shop.merchant.post("/api/v1/initiate-payment", {})
    await shop.services.requests.flush()
    await shop.fund("5")
    funding = await db.value(
        "SELECT trx_id FROM posting WHERE merchant_id = $1 AND kind = 'funding'",
        shop.merchant.new.id,
    )
    pages: dict[str, Any] = {
        notification: ("notification", f"/console/notifications/{notification}"),
        refused.headers["x-request-id"]: (
            "request",
            f"/console/requests/{refused.headers['x-request-id']}",
        ),
        funding: ("funding", f"/console/ledger/postings?q={funding}"),
    }
    for identifier, (kind, location) in pages.items():
        found = await find(db, identifier)
        assert found is not None
        assert (found.kind, found.merchant_id) == (kind, shop.merchant.new.id)
        reply = await operator.get(f"/transactions?q={identifier}")
        assert (reply.status, reply.location) == (303, location)
        assert (await operator.get(location.removeprefix("/console"))).status == 200


async def test_an_unknown_id_is_not_found(shop: Shop, operator: SignedInUser) -> None:
    started = await shop.start()
    for text in (
        *(trx_ids.new(shop.merchant.new.id), f"{started.trx_id}-9", "0" * 24, "99999999999"),
        *(notification_ids.new(shop.merchant.new.id), "anything", "", "-", "TXN"),
    ):
        assert await find(shop.services.db, text) is None, text
        assert (await operator.get(f"/transactions?q={text}")).status == 200, text
