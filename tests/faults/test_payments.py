"""Processes die during a payment. No payment is lost or processed twice."""

from collections.abc import AsyncIterator

import pytest

from tests.faults.live_instance import LiveInstance, trx_of
from tests.support import kinds
from tests.support.rows import first_short

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LiveInstance]:
    running = await LiveInstance(tmp_path_factory.mktemp("faults")).open()
    await running.configure_all_kinds()
    yield running
    await running.close()


async def _credits(running: LiveInstance, trx_id: str) -> tuple[int, int, int]:
    record = await running.db.record(
        """
        SELECT (SELECT count(*) FROM posting WHERE trx_id = $1 AND kind = 'payment') AS credits,
               (SELECT count(*) FROM notification WHERE trx_id = $1) AS notified,
               (SELECT count(*) FROM timeline WHERE trx_id = $1) AS steps""",
        trx_id,
    )
    return record["credits"], record["notified"], record["steps"]


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
async def test_a_crash_after_storing_a_webhook_neither_loses_nor_repeats_it(
    running: LiveInstance, rail: str
) -> None:
    checkout = await running.start()
    reference = await running.choose(checkout, kinds.BY_RAIL[rail].checkout_method)
    running.arm("after_webhook_stored")
    await running.control(f"{rail}/charges/{reference}/pay", {})

    async def is_paid() -> bool:
        return await running.status(checkout) == "success"

    await running.until(is_paid)
    assert running.has_crashed("after_webhook_stored")
    assert await _credits(running, trx_of(checkout)) == (1, 1, 1)
    assert await running.invariants_hold()


@pytest.mark.parametrize(
    ("point", "is_shared"),
    [
        ("amid_payment_credit", False),
        ("before_payment_commit", True),
        ("before_payment_commit", False),
        ("after_payment_commit", True),
        ("after_payment_commit", False),
    ],
)
async def test_a_crash_during_a_credit_leads_to_one_credit_and_one_commission(
    running: LiveInstance, point: str, *, is_shared: bool
) -> None:
    """A payment with a receipt does not share the SQL statement that credits several payments."""
    running.instance.command(
        "merchant", "set", str(running.merchant["id"]), "--commission-percent", "1.5"
    )
    await running.db.execute(
        "UPDATE merchant SET sends_receipts = $2 WHERE id = $1",
        *(running.merchant["id"], not is_shared),
    )
    checkout = await running.start(customer_email="ada@example.com")
    reference = await running.choose(checkout, "providera-ngn")
    running.arm(point)
    await running.control(f"a/charges/{reference}/pay", {})

    async def has_crashed() -> bool:
        return running.has_crashed(point)

    await running.until(has_crashed)
    await running.end_leases()

    async def is_paid() -> bool:
        return await running.status(checkout) == "success"

    await running.until(is_paid)
    assert await _credits(running, trx_of(checkout)) == (1, 1, 1)
    assert await running.invariants_hold()
