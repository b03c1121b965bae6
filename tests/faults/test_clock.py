"""A host whose clock jumps: what is due, and who holds what, goes by the database's clock."""

from datetime import datetime, timedelta, tzinfo
from typing import Self

import pytest

from manilla.payouts import initiate
from tests.payouts.desk import Desk


class Ahead(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + timedelta(hours=1)


async def test_31_a_host_whose_clock_is_ahead_does_not_delay_a_payout(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initiate, "datetime", Ahead)
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    assert [transfer["reference"] for transfer in await desk.transfers()] == [trx_id]
