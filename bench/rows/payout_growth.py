"""The cost of a payout after ten thousand and after a million others. It must not grow."""

from contextlib import AbstractAsyncContextManager

from bench.frame import Row
from bench.merchants import BALANCE_MINOR, Seeded
from bench.rows.growth import Growing, Measured, grown
from bench.rows.initiate_payout import CURRENCY, charged_method, one_by_one, orders
from bench.stage import Stage
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.merchants.merchants import NewMerchant

# Two thirds of the earlier payouts belong to the measured merchant, as with payments. They are
# finished, so they have no jobs. Rows that a payout adds but never reads (entries, timelines) are
# omitted, because creating them takes minutes.
EARLIER_PAYOUTS = """
    INSERT INTO payout (
           merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor, fee_minor,
           method_id, method_code, method_name, provider, beneficiary, account_name, description,
           ipn_url, remarks, created_at, updated_at)
    SELECT {merchant_id} + CASE WHEN n % 3 = 0 THEN 1 + n % 10000 ELSE 0 END,
           'TXN' || lpad(n::text, 30, '0'), 'sandbox', md5(n::text), 'completed', 'NGN', 100000,
           1000, 6, 'providera_ngn_transfer', 'Provider A bank transfer', 'providera',
           '{{"bank_code": "058", "account_number": "0123456789"}}', 'SANDBOX BENEFICIARY',
           'Two chairs and a table', 'https://shop.example/ipn', 'SANDBOX_TRANSACTION',
           moment, moment
      FROM generate_series(1, {number}) AS n,
           LATERAL (SELECT now() - ({number} - n) * interval '1 second' AS moment) AS m;
    INSERT INTO posting (merchant_id, environment, currency, kind, trx_id, posted_at)
    SELECT merchant_id, environment, currency, 'payout', trx_id, created_at FROM payout"""


def opened(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return grown(stage, Growing("initiate-payout", EARLIER_PAYOUTS, _prepare))


async def _prepare(stage: Stage, db: Database, merchant: NewMerchant) -> Measured:
    method = await charged_method(db)
    money = Money(CURRENCY, BALANCE_MINOR)
    await wallets.fund(db, merchant.id, Environment.SANDBOX, money, "For the bench")
    # Use the same API keys in every database.
    seeded = [Seeded(merchant.id, stage.merchant.sandbox)]
    return Measured(
        lambda name, served: orders(name, served, seeded, method),
        await one_by_one(merchant.id, method),
    )
