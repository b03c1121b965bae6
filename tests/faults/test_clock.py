"""If a host's clock jumps, due times and leases stay correct. They use the database's clock."""

from datetime import datetime, timedelta, tzinfo
from typing import Self

import pytest

from manilla.payouts import initiate
from tests.payouts.payout_merchant import PayoutMerchant


class Ahead(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + timedelta(hours=1)


async def test_31_a_host_with_a_fast_clock_does_not_delay_a_payout(
    payer: PayoutMerchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initiate, "datetime", Ahead)
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    assert [transfer["reference"] for transfer in await payer.transfers()] == [trx_id]
