"""The simulated world: a real instance, its merchants with their keys, and what was counted."""

import asyncio
import json
import os
import signal
import subprocess
import time
import urllib.error
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from manilla.services import Services
from tests.client import Reply
from tests.faults.live_instance import LiveInstance
from tests.instance import MANILLA
from tests.kinds import BY_RAIL, SEEDED, TestedKind
from tests.signing import sign
from tests.simulation.model import Decision, Model, Operation
from tests.simulation.plan import MERCHANTS, RAILS
from tests.simulation.receiver import Receiver
from tests.web.signed_in_user import SignedInUser, member

OPENING_MINOR = 50_000_000
COMMISSION_PERCENT = Decimal("1.5")
PROVIDER_BALANCE = 10**12
# The fee of each payout method, in minor units.
FEES = {**dict.fromkeys(RAILS, 0), "a": 2500, "b": 1000, "auto": 1500, "manual": 5000}
CODES = {rail: BY_RAIL[rail].transfer_method for rail in RAILS}
CODES |= {"auto": "auto_ngn", "manual": "platform"}
LOST = (OSError, IndexError, ValueError, TimeoutError, urllib.error.URLError)
REQUEST_SECONDS = 30
# The events that webhook endpoints receive: all final statuses.
EVENT_TYPES = ["payment.success", "payment.failed", "refund.completed"]
EVENT_TYPES += [f"payout.{status}" for status in ("completed", "failed", "canceled", "reversed")]


@dataclass
class Keys:
    merchant_key: str
    api_key: str
    api_secret: str


@dataclass
class Shop:
    """A merchant of the simulation, with everything that it has to remember."""

    id: int
    owner: SignedInUser
    keys: Keys
    main_keys: Keys
    pays_commission: bool
    requests: dict[int, tuple[str, bytes, Operation]] = field(default_factory=dict)
    link: str = ""
    # The payouts of each payout file, in the order of its rows.
    files: dict[str, list[Operation]] = field(default_factory=dict)
    # The numbers of the requests whose outcome is still unknown.
    unknown: set[int] = field(default_factory=set)


class World:
    def __init__(self, folder: Path) -> None:
        self.live = LiveInstance(folder, "--workers", "2")
        self.folder = folder
        self.model = Model()
        self.receiver = Receiver()
        self.shops: list[Shop] = []
        self.methods: dict[str, int] = {}
        self.operations: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()  # of requests that were not accepted at once
        self.faults: Counter[str] = Counter()
        self.checks: Counter[str] = Counter()
        self.violations: list[str] = []
        self.last_failure = ""  # the newest failed command, and its error
        # The administrators' decisions whose command may have failed after its commit.
        self.attempted: dict[str, Decision] = {}
        self._second: subprocess.Popen[bytes] | None = None

    async def open(self) -> None:
        await self.live.open()
        running = json.loads((self.live.instance.folder / "instance.json").read_text())
        self.database_url: str = running["database_url"]
        await self.receiver.start()
        for rail in RAILS:
            if rail not in SEEDED:
                await self._configure(BY_RAIL[rail])
        for method, fee in FEES.items():
            amount = f"{Decimal(fee) / 100:.2f}"
            words = ("--fee-fixed", amount, "--active", "on")
            await self.command("withdraw-method", "set", CODES[method], *words)
        for record in await self.live.db.records("SELECT id, code FROM method"):
            self.methods[record["code"]] = record["id"]
        for rail in RAILS:
            await self.control(f"{rail}/balance", {"available": PROVIDER_BALANCE})
            await self.control(f"{rail}/faults", {"settle_seconds": 0.2})
        self.shops += await asyncio.gather(*map(self._new_shop, range(MERCHANTS)))
        self.start_second_worker()

    async def close(self) -> None:
        self.stop_second_worker()
        await self.receiver.stop()
        await self.live.db.close()
        self.live.instance.stop()

    async def _configure(self, kind: TestedKind) -> None:
        """Makes a provider kind that a new installation does not use call the simulator."""
        given = kind.credentials(self.live.simulator).items()
        await self.command("provider", "set", kind.provider, *(f"{k}={v}" for k, v in given))

    async def _new_shop(self, number: int) -> Shop:
        email = f"shop-{number}@example.com"
        words = ("merchant", "create", f"Shop {number}", email, "--status", "approved")
        made = await self.command(*words)
        shop_id, keys = made["id"], Keys(**_keys(made["production"]))
        bearer = "merchant" if number % 2 else "customer"
        percent = str(COMMISSION_PERCENT)
        terms = ("--commission-percent", percent, "--commission-bearer", bearer)
        await self.command("merchant", "set", str(shop_id), *terms)
        self.receiver.secrets[shop_id].add(keys.api_secret)
        owner = await member(self.services, self.live.instance.site, shop_id)
        shop = Shop(shop_id, owner, keys, keys, pays_commission=bearer == "merchant")
        await self.fund(shop, "opening", OPENING_MINOR)
        await self._add_endpoint(shop)
        return shop

    async def _add_endpoint(self, shop: Shop) -> None:
        fields = {"url": f"{self.receiver.url}/endpoint/{shop.id}", "events": EVENT_TYPES}
        body = json.dumps(fields).encode()
        reply = await self.call(shop, "POST", "/api/v1/webhook-endpoints", body)
        assert reply is not None, "The webhook endpoint was not created."
        self.receiver.endpoint_secrets[shop.id] = reply.json["secret"]

    async def fund(self, shop: Shop, reference: str, minor: int) -> None:
        amount = f"{Decimal(minor) / 100:.2f}"
        words = (str(shop.id), "NGN", amount, "--environment", "production")
        await self.command("wallet", "fund", *words)
        self.model.fund(shop.id, reference, minor)

    @property
    def services(self) -> Services:
        """The services for functions about signed-in users, which need only the database."""
        return cast(Services, SimpleNamespace(db=self.live.db))

    # Requests and commands.

    async def call(
        self, shop: Shop, method: str, target: str, body: bytes = b"", key: str = "", skew: int = 0
    ) -> Reply | None:
        """Sends a signed request. Returns None if the connection was lost."""
        now = str(int(time.time()) + skew)
        headers = {
            "X-Environment": "production",
            "X-Merchant-Key": shop.keys.merchant_key,
            "X-API-Key": shop.keys.api_key,
            "X-Timestamp": now,
            "X-Signature": sign(shop.keys.api_secret, now, method, target, body),
        }
        if key:
            headers["Idempotency-Key"] = key
        return await self.send(method, target, headers, body)

    async def send(
        self, method: str, target: str, headers: dict[str, str], body: bytes = b""
    ) -> Reply | None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await self.live.instance.site.send(method, target, headers, body)
        except LOST:
            return None

    async def command(self, *words: str) -> Any:
        return await asyncio.to_thread(self.live.instance.command, *words)

    async def try_command(self, *words: str) -> Any:
        """Runs a command. Returns None if it failed, for example while the database is down."""
        try:
            return await self.command(*words)
        except (AssertionError, ValueError, subprocess.TimeoutExpired) as error:
            self.last_failure = f"{' '.join(words)}: {error}"
            return None

    async def control(self, path: str, document: Any = None) -> Any:
        return await self.live.control(path, document)

    # Processes.

    def start_second_worker(self) -> None:
        """Starts a second worker, so that another worker takes over when one stalls."""
        if self._second is None or self._second.poll() is not None:
            environment = {"MANILLA_CRASH_FOLDER": str(self.live.crashes)}
            with (self.live.instance.folder / "logs" / "second-worker.log").open("ab") as log:
                self._second = subprocess.Popen(
                    [*MANILLA, "worker", "--data", str(self.live.instance.folder)],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **environment},
                )

    def stop_second_worker(self) -> None:
        if self._second is not None and self._second.poll() is None:
            self._second.send_signal(signal.SIGCONT)
            self._second.kill()
            self._second.wait(30)

    def processes(self, name: str) -> list[int]:
        """Returns the process ids of a program: `serve`, `worker`, `simulator` or `postgres`."""
        if name == "postgres":
            try:
                return [self.live.instance.postmaster()]
            except (OSError, IndexError):
                return []  # PostgreSQL is just starting.
        found = [pid for pid in self.live.instance.tree() if _runs(pid, name)]
        if name == "worker" and self._second is not None and self._second.poll() is None:
            found.append(self._second.pid)
        return found


def _runs(pid: int, name: str) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return name.encode() in words


def _keys(given: dict[str, str]) -> dict[str, str]:
    return {name: given[name] for name in ("merchant_key", "api_key", "api_secret")}


def minor_of(amount: Any) -> int:
    return int((Decimal(str(amount)) * 100).to_integral_exact())


def decoded(reply: Reply) -> Any:
    """Returns the response's JSON with exact decimals instead of floats."""
    return json.loads(reply.body, parse_float=Decimal)
