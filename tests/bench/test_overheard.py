"""The benchmark's contender `pgbench` repeats the arguments that Manilla passes to SQL."""

import msgspec

from bench.rows import initiate_payment
from bench.signed import CURRENCY

MERCHANT_ID = 7


async def test_the_benchmark_gets_the_arguments_of_a_new_payment() -> None:
    script = await initiate_payment.one_by_one(MERCHANT_ID)
    names = ("before_reference", "before_trx", "before_client", "rest")
    [item] = msgspec.json.decode("X".join(script.variables[name] for name in names))
    assert item["merchant_id"] == MERCHANT_ID
    assert item["currency"] == CURRENCY
