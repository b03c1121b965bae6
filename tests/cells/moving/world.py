"""Two cells behind HAProxy, their merchants, and one simulator of all providers.

Both cells have the same provider accounts, because a moved merchant's open transactions stay with
the account that received them. The providers send all webhooks to the proxy.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

from manilla.cells.maps import Proxy
from manilla.kit import changes
from manilla.kit.crypto import generate_key
from manilla.kit.database.connections import Database
from tests.cells import proxies
from tests.cells.moving.cell import Cell
from tests.cells.pair import ABUJA, LAGOS
from tests.cells.proxies import RunningProxy
from tests.faults.live_instance import control_simulator
from tests.simulation.shops import (
    LOST,
    Keys,
    MerchantWorld,
    Shop,
    configure_account,
    configure_methods,
    pays_commission,
)
from tests.support.client import Reply, Site
from tests.support.kinds import BY_RAIL
from tests.support.provider_simulator import serving_providers

RAILS = ("a", "b", "c")
OPENING_MINOR = 1_000_000_000
REQUEST_SECONDS = 30
WEBHOOK_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0)
HAPROXY = Proxy.HAPROXY
UNAVAILABLE = (0, 503)
MAP_TRIES, MAP_SECONDS = 60, 0.5
EVERY_EVENT = ["*"]


class Call(msgspec.Struct, frozen=True):
    """An API request of a merchant, and the status of its response."""

    merchant: int
    at: float  # the monotonic time of the response
    status: int  # 0 if the connection was lost

    @property
    def is_served(self) -> bool:
        return self.status not in UNAVAILABLE


class CellWorld(MerchantWorld):
    """The first merchant starts in the first cell and is moved. Each cell has one that stays."""

    proxy: RunningProxy

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._maps = folder / "maps"
        self._stack = AsyncExitStack()
        self.shops: list[Shop] = []
        self.calls: list[Call] = []
        self.served: Counter[int] = Counter()  # requests with a response other than 503
        key = generate_key()
        self.cells = [
            Cell("lagos", folder / "lagos", *LAGOS, host="127.0.0.1", master_key=key),
            Cell("abuja", folder / "abuja", *ABUJA, host="localhost", master_key=key),
        ]

    async def open(self) -> None:
        self._maps.mkdir()
        for cell in self.cells:
            self._stack.push_async_callback(cell.close)
        await asyncio.gather(*(cell.open() for cell in self.cells))
        await self._introduce()
        lagos, abuja = self.cells
        maps = await lagos.command("cell", "map", "--for", HAPROXY)
        urls = {cell.name: f"http://127.0.0.1:{cell.port}" for cell in self.cells}
        self.proxy = await self._stack.enter_async_context(
            proxies.running(HAPROXY, self._maps, maps, urls)
        )
        self._site = Site(self.proxy.port)
        self._simulator = await self._stack.enter_async_context(
            serving_providers(
                f"http://127.0.0.1:{self.proxy.port}", webhook_retry_seconds=WEBHOOK_RETRY_SECONDS
            )
        )
        for cell in self.cells:
            await self._configure(cell)
        await self.prepare_providers(RAILS)
        await self.update_maps()
        await self.receiver.start()
        self._stack.push_async_callback(self.receiver.stop)
        # After this time, no process uses data that was cached before the changes.
        await asyncio.sleep(changes.STALE_AFTER_SECONDS)
        for number, cell in enumerate((lagos, lagos, abuja)):
            self.shops.append(await self._create_shop(cell, number))

    async def close(self) -> None:
        await self._stack.aclose()

    async def _introduce(self) -> None:
        """Makes the cells known to each other, as the operating manual describes."""
        for one, other in (self.cells, reversed(self.cells)):
            await one.command("cell", "add", other.name, "--url", other.base_url, *other.range)
        for one, other in (self.cells, reversed(self.cells)):
            issued = await one.command("cell", "token", other.name)
            await other.command("cell", "set", one.name, "--token", issued["token"])

    async def _configure(self, cell: Cell) -> None:
        for rail in RAILS:
            await configure_account(cell.command, BY_RAIL[rail], self._simulator)
        await configure_methods(cell.command, RAILS)
        records = await cell.db.records("SELECT id, code FROM method")
        methods = {record["code"]: record["id"] for record in records}
        # Merchants send the method's number, so it must be the same in both cells.
        assert self.methods in ({}, methods)
        self.methods = methods

    async def _create_shop(self, cell: Cell, number: int) -> Shop:
        made = await self.create_merchant(cell.command, number, f"shop-{number}@example.com")
        shop = Shop(made["id"], Keys.of(made), pays_commission(number))
        await self.fund(cell.command, shop, "opening", OPENING_MINOR)
        await self.add_endpoint(shop, EVERY_EVENT)
        return shop

    async def update_maps(self) -> None:
        """Writes new maps, reloads the proxy and checks the maps, as the operator does.

        A cell may report a merchant for up to a second after it has left, so the check may fail.
        """
        lagos, maps = self.cells[0], str(self._maps)
        for _ in range(MAP_TRIES):
            failure = await lagos.try_command("cell", "map", "--for", HAPROXY, "--out", maps)
            if failure is None:
                self.proxy.reload(HAPROXY)
                failure = await lagos.try_command("cell", "check", maps, "--for", HAPROXY)
            if failure is None:
                return
            await asyncio.sleep(MAP_SECONDS)
        raise RuntimeError(f"The maps cannot be updated: {failure}")

    @property
    def databases(self) -> Sequence[Database]:
        return [cell.db for cell in self.cells]

    async def send(
        self, method: str, target: str, headers: dict[str, str], body: bytes = b""
    ) -> Reply | None:
        with contextlib.suppress(*LOST):
            async with asyncio.timeout(REQUEST_SECONDS):
                return await self._site.send(method, target, headers, body)
        return None

    async def call(
        self,
        shop: Shop,
        method: str,
        target: str,
        body: bytes = b"",
        key: str = "",
        skew: int = 0,
        content_type: str = "",
    ) -> Reply | None:
        reply = await super().call(shop, method, target, body, key, skew, content_type)
        call = Call(shop.id, time.monotonic(), reply.status if reply else 0)
        self.calls.append(call)
        self.served[shop.id] += call.is_served
        return reply

    async def control(self, path: str, document: Any = None) -> Any:
        return await control_simulator(self._simulator, path, document)
