"""An instance with a merchant. Tests can kill the instance's processes at chosen crash points."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from manilla.kit import changes
from manilla.kit.database.connections import Database
from manilla.ledger import invariants
from manilla.methods import catalogue
from tests.payments.orders import INITIATE, VERIFY, order
from tests.support import kinds
from tests.support.client import Reply
from tests.support.instance import Instance
from tests.support.invariants import ALL
from tests.support.signing import sign
from tests.support.timeouts import TIMEOUT_SECONDS


class LiveInstance:
    """`manilla up` with its simulator. A test can make processes exit at chosen crash points."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        smtp_url: str = "",
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.crashes = folder / "crashes"
        self.crashes.mkdir()
        environment = {**variables, "MANILLA_CRASH_FOLDER": str(self.crashes)}
        if smtp_url:
            environment["MANILLA_SMTP_URL"] = smtp_url
        self.instance = Instance(folder / "data", *options, environment=environment).wait()
        self.merchant = self.instance.command(
            "merchant", "create", "Ada Stores", "ada@example.com", "--status", "approved"
        )
        self.simulator = f"http://127.0.0.1:{self.instance.port + 1}"

    async def open(self) -> Self:
        url = json.loads((self.instance.folder / "instance.json").read_text())["database_url"]
        self.db = await Database.open(url, size=4, name="tests")
        await self._raise_rate_limit()
        return self

    async def close(self) -> None:
        await self.db.close()
        assert self.instance.stop() == 0

    async def _raise_rate_limit(self) -> None:
        """Raises the rate limit. On a slow machine, a test that polls would exceed the default."""
        limit = "100000"
        self.instance.command("setting", "set", "rate_limit_per_minute", limit)

        async def is_in_effect() -> bool:
            reply = await self.call("GET", "/api/v1/site-info")
            return limit in reply.headers["ratelimit-policy"]

        await self.until(is_in_effect)

    async def configure_all_kinds(self) -> None:
        """Connects the provider kinds that a new installation does not use to the simulator."""
        for kind in kinds.BY_RAIL.values():
            if kind.rail not in kinds.SEEDED:
                given = kind.credentials(self.simulator).items()
                words = [f"{name}={text}" for name, text in given]
                self.instance.command("provider", "set", kind.provider, *words)
                await self._activate_methods(kind.provider)
        # After this call, no process uses data that was cached before the change.
        await asyncio.sleep(changes.STALE_AFTER_SECONDS)

    async def _activate_methods(self, provider: str) -> None:
        for method in await catalogue.load(self.db):
            if method.provider == provider:
                wanted = catalogue.MethodUpdate(active=True)
                await catalogue.change(self.db, method.kind, method.code, wanted)

    def arm(self, point: str) -> None:
        (self.crashes / point).touch()

    def has_crashed(self, point: str) -> bool:
        return not (self.crashes / point).exists()

    async def call(
        self, method: str, target: str, body: bytes = b"", idempotency_key: str = ""
    ) -> Reply:
        keys = self.merchant["production"]
        now = str(int(time.time()))
        headers = {
            "X-Environment": "production",
            "X-Merchant-Key": keys["merchant_key"],
            "X-API-Key": keys["api_key"],
            "X-Timestamp": now,
            "X-Signature": sign(keys["api_secret"], now, method, target, body),
        }
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        return await self.instance.site.send(method, target, headers, body)

    async def initiate(self, **changed: Any) -> Reply:
        return await self.call("POST", INITIATE, json.dumps(order(**changed)).encode())

    async def start(self, **changed: Any) -> str:
        """Creates a payment and returns its checkout path and query."""
        reply = await self.initiate(**changed)
        assert reply.status == 200, reply.body
        return checkout_of(reply)

    async def choose(self, checkout: str, method: str) -> str:
        """Chooses a method as the customer, and returns the charge's reference."""
        reply = await self.send_choice(checkout, method)
        assert reply.status == 303, reply.body
        return trx_of(checkout) + "-1"

    async def send_choice(self, checkout: str, method: str) -> Reply:
        path, _, query = checkout.partition("?")
        return await self.instance.site.send(
            "POST",
            f"{path}/choose?{query}",
            {"Content-Type": "application/x-www-form-urlencoded"},
            urlencode({"method": method}).encode(),
        )

    async def control(self, path: str, document: Any = None) -> Any:
        return await control_simulator(self.simulator, path, document)

    async def status(self, checkout: str) -> str:
        status: str = (await self.call("GET", VERIFY + trx_of(checkout))).json["status"]
        return status

    async def until(self, is_so: Any) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                try:
                    if await is_so():
                        return
                except (OSError, urllib.error.URLError, IndexError, KeyError):
                    pass  # A process has just died, and the supervisor is starting its replacement.
                await asyncio.sleep(0.1)

    async def end_leases(self) -> None:
        """Ends all leases and makes all jobs due, as if time had passed since a crash."""
        await self.db.execute("UPDATE job SET due_at = now(), leased_until = now()")

    async def invariants_hold(self) -> bool:
        return not [f for f in await invariants.check(self.db, ALL) if f.count]


async def control_simulator(url: str, path: str, document: Any = None) -> Any:
    """Sends a command to the simulator's control API, or reads its state without a command."""
    request = urllib.request.Request(
        f"{url}/control/api/{path}",
        None if document is None else json.dumps(document).encode(),
        {"Content-Type": "application/json"},
    )

    def send() -> Any:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as reply:
            return json.load(reply)

    return await asyncio.to_thread(send)


def checkout_of(reply: Reply) -> str:
    """Returns the path and query of the checkout page in the response to a new payment."""
    parts = urlsplit(reply.json["payment_url"])
    return f"{parts.path}?{parts.query}"


def trx_of(checkout: str) -> str:
    return checkout.partition("?")[0].rsplit("/", 1)[1]
