"""The same merchant at another program, with sessions of its own."""

import contextlib
from collections.abc import AsyncIterator

import msgspec

from manilla import app
from manilla.services import opened
from manilla.settings import Settings
from tests.client import Site
from tests.conftest import serving
from tests.payouts.desk import Desk
from tests.simulated import World


@contextlib.asynccontextmanager
async def elsewhere(desk: Desk, settings: Settings, *, connections: int) -> AsyncIterator[Desk]:
    async with (
        opened(
            settings,
            name="tests elsewhere",
            connections=connections,
            statement_seconds=app.STATEMENT_SECONDS,
        ) as services,
        serving(app.build(services)) as port,
    ):
        world = World(services, desk.world._session, desk.world.url)
        merchant = msgspec.structs.replace(desk.merchant, site=Site(port))
        yield Desk(services, world, merchant)
