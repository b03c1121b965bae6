"""Runs a second web process, with its own database connections, for the same merchant."""

import contextlib
from collections.abc import AsyncIterator

import msgspec

from manilla.app import WebApplication
from manilla.kit import time_limits
from manilla.settings import Settings
from manilla.wiring import open_services
from tests.conftest import serving
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.client import Site


@contextlib.asynccontextmanager
async def second_process(
    payer: PayoutMerchant, settings: Settings, *, connections: int
) -> AsyncIterator[PayoutMerchant]:
    async with (
        open_services(
            settings,
            name="second process",
            connections=connections,
            statement_seconds=time_limits.current.web_statement_seconds,
        ) as services,
        serving(WebApplication(services)) as port,
    ):
        simulator = payer.simulator.used_by(services)
        merchant = msgspec.structs.replace(payer.merchant, site=Site(port))
        yield PayoutMerchant(services, simulator, merchant)
