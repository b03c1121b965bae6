"""Two cells that know each other, each with its own database and its own web process."""

import contextlib
from collections.abc import AsyncIterator

import msgspec

from manilla.cells import registry
from manilla.cli.cells import cell
from manilla.kit.embedded.postgres import Cluster
from manilla.services import Services
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.support.client import Site
from tests.support.databases import database, running

LAGOS, ABUJA = (1, 1_048_575), (1_048_576, 2_097_151)


class RunningCell(msgspec.Struct, frozen=True):
    services: Services
    site: Site
    commands: InProcessCommand

    @property
    def base_url(self) -> str:
        return self.services.base_url


class CellPair(msgspec.Struct, frozen=True):
    lagos: RunningCell
    abuja: RunningCell

    async def look(self) -> None:
        """Makes both web processes see all changes."""
        await self.lagos.services.watch.look()
        await self.abuja.services.watch.look()


@contextlib.asynccontextmanager
async def running_pair(
    cluster: Cluster, settings: Settings, prefix: str, second: Cluster | None = None
) -> AsyncIterator[CellPair]:
    """`second`: the server of the second cell, or None if both cells are on one server."""
    async with contextlib.AsyncExitStack() as stack:
        cells = []
        for name, host, server in (
            ("lagos", "127.0.0.1", cluster),
            ("abuja", "localhost", second or cluster),
        ):
            own = await database(server, settings, f"{prefix}_{name}", is_migrated=True)
            own = msgspec.structs.replace(own, base_url=own.base_url.replace("127.0.0.1", host))
            services, site = await stack.enter_async_context(running(own))
            environment = {**environment_of(own), "MANILLA_BASE_URL": own.base_url}
            cells.append(RunningCell(services, site, InProcessCommand(cell.app, environment)))
        pair = CellPair(*cells)
        await _introduce(pair)
        yield pair


async def _introduce(pair: CellPair) -> None:
    lagos, abuja = pair.lagos.services, pair.abuja.services
    await registry.create(lagos.db, "lagos", *LAGOS)
    await registry.create(abuja.db, "abuja", *ABUJA)
    await registry.add(lagos.db, "abuja", abuja.base_url, *ABUJA)
    await registry.add(abuja.db, "lagos", lagos.base_url, *LAGOS)
    for one, other, name, other_name in (
        (lagos, abuja, "lagos", "abuja"),
        (abuja, lagos, "abuja", "lagos"),
    ):
        token = await registry.issue_token(one.db, other_name)
        await registry.change(other.db, other.keyring, name, token=token)
    await pair.look()
