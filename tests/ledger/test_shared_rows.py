"""When money moves, rows that several merchants share do not stay locked until the commit.

With a synchronous standby, a commit takes long. If each settlement locked a shared row until its
commit, the whole platform could settle only one transaction at a time.
"""

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.refunds import decisions
from manilla.services import Services
from tests.ledger.shared_rows import watching
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import PayoutMerchant, new_reference
from tests.support.client import Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator


async def _pay_out(payer: PayoutMerchant) -> None:
    await payer.check_until(await payer.pay_out("a"), "completed")


async def _take_and_refund(shop: Shop) -> None:
    started = await shop.start()
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")
    ordered = {"trx_id": started.trx_id, "ref_trx": new_reference()}
    refund = await shop.merchant.post("/api/v1/initiate-refund", ordered)

    async def is_paid() -> bool:
        trx_id = refund.json["trx_id"]
        return (await decisions.find(shop.services.db, trx_id)).status == "completed"

    await shop.simulator.until(is_paid)


async def test_payouts_payments_and_refunds_lock_no_row_that_merchants_share(
    services: Services,
    simulated_providers: ProviderSimulator,
    site: Site,
    db: Database,
    owner: Database,
    keyring: Keyring,
) -> None:
    await simulated_providers.reset()
    for provider in "abc":
        await simulated_providers.control(f"{provider}/balance", {"available": 100_000_000})
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    payer = PayoutMerchant(services, simulated_providers, merchant)
    shop = Shop(services, simulated_providers, merchant)
    await payer.fund("10000")
    await _pay_out(payer)  # The first payout inserts rows that later payouts only update.
    await _take_and_refund(shop)
    await services.deliveries.flush()
    async with watching(owner) as rows:
        await _pay_out(payer)
        await _take_and_refund(shop)
    assert rows.found == set()
