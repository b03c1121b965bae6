"""Every response and notification formats a payment's amounts with its currency's decimals."""

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.merchants.merchants import CommissionBearer
from manilla.refunds import initiate, states
from manilla.services import Services
from manilla.transfers.events import Source, TransferEvent, TransferResult
from tests.payments import steps
from tests.payments.orders import order
from tests.support.client import Merchant, Site, new_merchant
from tests.support.wire_money import assert_decimals

COMMISSION = {"base_amount", "commission_fee", "customer_paid", "merchant_received"}


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


async def _notified(db: Database, merchant: Merchant, trx_id: str) -> list[bytes]:
    records = await db.records(
        "SELECT body FROM notification WHERE merchant_id = $1 AND trx_id = $2 ORDER BY id",
        *(merchant.new.id, trx_id),
    )
    return [record["body"] for record in records]


@pytest.mark.parametrize("percent", ["0", "1.5"])
@pytest.mark.parametrize("currency", ["NGN", "JPY", "KWD"])
@pytest.mark.parametrize("scenario", ["success", "failed"])
async def test_amounts_have_the_decimals_of_their_currency(
    merchant: Merchant, services: Services, scenario: str, currency: str, percent: str
) -> None:
    await steps.change(services, merchant, currencies=[currency])
    await steps.set_commission(services, merchant, percent, CommissionBearer.CUSTOMER)
    started = await steps.initiate(
        merchant, order(currency_code=currency), X_Sandbox_Scenario=scenario
    )
    assert assert_decimals(started.body, currency) >= {"amount", "customer_pays"}
    trx_id = steps.trx_id_of(started)
    await steps.complete(services, merchant, trx_id)
    verified = await steps.verify(merchant, trx_id)
    assert_decimals(verified.body, currency)
    [body] = await _notified(services.db, merchant, trx_id)
    assert assert_decimals(body, currency) >= {"amount", *COMMISSION}


async def test_refund_amounts_have_all_decimals(merchant: Merchant, services: Services) -> None:
    trx_id = await steps.new_payment(merchant)
    await steps.complete(services, merchant, trx_id)
    refund = await initiate.start(services.db, trx_id, "1", "One book returned")
    await states.apply_result(
        services.db, refund, TransferResult(TransferEvent.DELIVERED, Source.STATUS_QUERY)
    )
    _, body = await _notified(services.db, merchant, trx_id)
    assert assert_decimals(body, "NGN") >= {"amount", "refund_amount", *COMMISSION}
