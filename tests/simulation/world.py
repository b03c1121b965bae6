"""The simulated world: a real instance, its merchants with their keys, and what was counted."""

import asyncio
import base64
import contextlib
import json
import os
import subprocess
import time
import urllib.error
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from manilla_simulator.names import holder_of

from manilla.kit.crypto import Keyring, generate_key
from manilla.kit.errors import Unavailable
from manilla.people.roles import Role
from manilla.services import Services
from tests.client import Reply
from tests.faults.live_instance import LiveInstance
from tests.faults.replicated import Replicated
from tests.kinds import BY_RAIL, SEEDED, TestedKind
from tests.signing import sign
from tests.simulation.clocks import DATABASE, FIRST, SECOND, Clocks
from tests.simulation.hosts import SecondHost
from tests.simulation.model import Decision, Kind, Model, Operation
from tests.simulation.plan import MERCHANTS, RAILS
from tests.simulation.receiver import Receiver
from tests.web.signed_in_user import SignedInUser, administrator, member, sign_in_again

OPENING_MINOR = 50_000_000
PREVIOUS_KEYS = "MANILLA_MASTER_KEYS_PREVIOUS"
RESERVE = "100000"  # the amount that a settlement leaves in the wallet
PROTECTED = (1, 4)  # the merchants whose large payouts need a second person
THRESHOLD = "1000"
SHOP_TRIES = 5
AUTOMATIC = (2, 6)  # the merchants whose balance is settled every day, without an order
ACCOUNT = "0123456789"  # the settlement account
NEW_MEMBER_SECONDS = 3 * 24 * 3600  # New members may not approve payouts until this time.
COMMISSION_PERCENT = Decimal("1.5")
PROVIDER_BALANCE = 10**12
EVERYTHING = 10**12  # more than any wallet contains
UNAVAILABLE = 503
# The possible fees of each payout method, in minor units. The first fee is the fee at the start.
FEES = {
    **dict.fromkeys(RAILS, (0,)),
    "a": (2500,),
    "b": (1000, 1700),
    "auto": (1500, 900),
    "manual": (5000,),
}
CODES = {rail: BY_RAIL[rail].transfer_method for rail in RAILS}
BANK = {**{rail: BY_RAIL[rail].bank_code for rail in RAILS}, "auto": "058", "manual": ""}
CODES |= {"auto": "auto_ngn", "manual": "platform"}
LOST = (OSError, IndexError, ValueError, TimeoutError, urllib.error.URLError)
REQUEST_SECONDS = 30
SECOND_HOST_TURN = 4  # the second host gets each fourth request
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
    finance: SignedInUser
    keys: Keys
    main_keys: Keys
    pays_commission: bool
    # The accepted requests and those with an unknown outcome, by idempotency key.
    requests: dict[str, tuple[str, bytes, Operation]] = field(default_factory=dict)
    sent_at: dict[str, float] = field(default_factory=dict)  # when each request was first sent
    link: str = ""
    # The payouts of each payout file, in the order of its rows.
    files: dict[str, list[Operation]] = field(default_factory=dict)
    # The settlements that a member ordered and that may exist.
    settlements: list[Operation] = field(default_factory=list)
    last_settlement: int = 0
    automatic: Operation | None = None  # the next settlement that nobody orders, if there is any
    # The idempotency keys of the requests whose outcome is still unknown.
    unknown: set[str] = field(default_factory=set)


class World:
    """Two hosts, a primary and a standby of PostgreSQL, the simulator, and the merchants.

    The first host is `manilla up` with two API processes and a worker.
    """

    live: LiveInstance
    database: Replicated
    second: SecondHost

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.clocks = Clocks()
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
        # The wallet adjustments, by the number of their approval, until their result is known.
        self.adjustments: dict[int, Operation] = {}
        self._requests = 0

    async def open(self) -> None:
        # All processes know a second master key from the beginning, as in the middle of a rotation.
        os.environ[PREVIOUS_KEYS] = generate_key()
        servers = self.folder / "database"
        servers.mkdir()
        self.database = Replicated(servers, self.clocks.variables(DATABASE))
        await self.database.open()
        variables = {**self.database.environment, **self.clocks.variables(FIRST)}
        self.live = await asyncio.to_thread(self._start_first_host, variables)
        await self.live.open()
        variables = {
            **self.clocks.variables(SECOND),
            "MANILLA_CRASH_FOLDER": str(self.live.crashes),
        }
        self.second = SecondHost(self.folder, self.live.instance.folder, variables)
        await self.receiver.start()
        for rail in RAILS:
            if rail not in SEEDED:
                await self._configure(BY_RAIL[rail])
        for method, fees in FEES.items():
            amount = f"{Decimal(fees[0]) / 100:.2f}"
            words = ("--fee-fixed", amount, "--active", "on")
            await self.command("withdraw-method", "set", CODES[method], *words)
        for rail in RAILS:
            for method in BY_RAIL[rail].methods:
                await self.command("deposit-method", "set", method, "--active", "on")
        for record in await self.live.db.records("SELECT id, code FROM method"):
            self.methods[record["code"]] = record["id"]
        for rail in RAILS:
            await self.control(f"{rail}/balance", {"available": PROVIDER_BALANCE})
            await self.control(f"{rail}/faults", {"settle_seconds": 0.2})
        for number in range(MERCHANTS):
            self.shops.append(await self._create_shop(number))
        self.administrators = [
            await administrator(self.services, self.live.instance.site, f"{name}@example.com")
            for name in ("ada", "bola", "chike")
        ]
        self.clocks.jump(NEW_MEMBER_SECONDS)
        self.second.start()

    def _start_first_host(self, variables: dict[str, str]) -> LiveInstance:
        return LiveInstance(self.folder, "--workers", "2", "--follow-parent", variables=variables)

    async def close(self) -> None:
        """Stops everything that was started."""
        os.environ.pop(PREVIOUS_KEYS, None)
        if hasattr(self, "second"):
            await asyncio.to_thread(self.second.stop)
            await self.receiver.stop()
        if hasattr(self, "live"):
            await self.live.db.close()
            await asyncio.to_thread(self.live.instance.stop)
        if hasattr(self, "database"):
            self.database.close()

    async def _configure(self, kind: TestedKind) -> None:
        """Makes a provider kind that a new installation does not use call the simulator."""
        given = kind.credentials(self.live.simulator).items()
        await self.command("provider", "set", kind.provider, *(f"{k}={v}" for k, v in given))

    async def _create_shop(self, number: int) -> Shop:
        """Creates a merchant. A busy machine may reject a request, so this creates another one."""
        for attempt in range(SHOP_TRIES):
            with contextlib.suppress(AssertionError, Unavailable):
                return await self._new_shop(number, f"shop-{number}-{attempt}@example.com")
        raise RuntimeError("The machine is too busy to create the merchants.")

    async def _new_shop(self, number: int, email: str) -> Shop:
        words = ("merchant", "create", f"Shop {number}", email, "--status", "approved")
        made = await self.command(*words)
        shop_id, keys = made["id"], Keys(**_keys(made["production"]))
        bearer = "merchant" if number % 2 else "customer"
        percent = str(COMMISSION_PERCENT)
        terms = ("--commission-percent", percent, "--commission-bearer", bearer)
        rules = ("--overpaid", "hold", "--underpaid", "hold")
        await self.command("merchant", "set", str(shop_id), *terms, *rules)
        self.receiver.secrets[shop_id].add(keys.api_secret)
        site = self.live.instance.site
        owner = await member(self.services, site, shop_id, Role.OWNER)
        finance = await member(self.services, site, shop_id, Role.FINANCE)
        is_bearer = bearer == "merchant"
        shop = Shop(shop_id, owner, finance, keys, keys, pays_commission=is_bearer)
        await self.fund(shop, "opening", OPENING_MINOR)
        await self._add_endpoint(shop)
        is_automatic = number in AUTOMATIC
        await self._prepare_settlements(shop, "daily" if is_automatic else "manual")
        if is_automatic:
            self.expect_settlement(shop)
        if number in PROTECTED and self.clocks.can_change:
            await self._protect(shop)
        return shop

    def expect_settlement(self, shop: Shop) -> None:
        """Records that a settlement may take the whole balance at any time.

        Its amount is not known before it has ended.
        """
        key = shop.id, Kind.PAYOUT, f"automatic after {shop.last_settlement}"
        wanted = Operation(*key, debit=EVERYTHING, credit=EVERYTHING, has_notice=False)
        shop.automatic = self.model.request(wanted)

    async def _prepare_settlements(self, shop: Shop, mode: str) -> None:
        owner = await self.sign_in(shop.owner, shop)
        account = {
            "method": str(self.methods[CODES["a"]]),
            "bank_code": BANK["a"],
            "account_number": ACCOUNT,
            "confirmed_name": holder_of(ACCOUNT),
        }
        saved = await owner.post("/production/settlement-account", account)
        assert saved.status == 303, saved.body
        plan = {"currency": "NGN", "mode": mode, "reserve": RESERVE}
        saved = await owner.post("/production/settlements/plan", plan)
        assert saved.status == 303, saved.body

    async def _protect(self, shop: Shop) -> None:
        """Makes payouts that a member orders in the dashboard need another person's approval."""
        owner = await self.sign_in(shop.owner, shop)
        form = {"currency": "NGN", "amount": THRESHOLD}
        saved = await owner.post("/production/protection/threshold", form)
        assert saved.status == 303, saved.body

    async def sign_in(self, user: SignedInUser, shop: Shop | None = None) -> SignedInUser:
        """Starts a new session, because the clock may have passed the end of the last session."""
        return await sign_in_again(self.services, user, shop.id if shop else None)

    async def _add_endpoint(self, shop: Shop) -> None:
        fields = {"url": f"{self.receiver.url}/endpoint/{shop.id}", "events": EVENT_TYPES}
        body = json.dumps(fields).encode()
        reply = await self.call(shop, "POST", "/api/v1/webhook-endpoints", body)
        while reply is not None and reply.status == UNAVAILABLE:
            # A busy machine may reject the request. Faults begin later, so nothing was created.
            await asyncio.sleep(1)
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
        """The services for functions about signed-in users, which need only these two."""
        key = (self.live.instance.folder / "master.key").read_text()
        keyring = Keyring([base64.b64decode(each) for each in (key, os.environ[PREVIOUS_KEYS])])
        return cast(
            Services, SimpleNamespace(db=self.live.db, keyring=keyring, is_development=True)
        )

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
        self._requests += 1
        is_running = bool(self.second.processes("serve"))
        is_second = is_running and self._requests % SECOND_HOST_TURN == 0
        site = self.second.site if is_second else self.live.instance.site
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await site.send(method, target, headers, body)
        except LOST:
            return None

    async def command(self, *words: str, **environment: str) -> Any:
        return await asyncio.to_thread(self.live.instance.command, *words, **environment)

    async def try_command(self, *words: str, **environment: str) -> Any:
        """Runs a command. Returns None if it failed, for example while the database is down."""
        try:
            return await self.command(*words, **environment)
        except (AssertionError, ValueError, subprocess.TimeoutExpired) as error:
            self.last_failure = f"{' '.join(words)}: {error}"
            return None

    async def control(self, path: str, document: Any = None) -> Any:
        return await self.live.control(path, document)

    # Processes.

    def processes(self, name: str) -> list[int]:
        """Returns the ids of a program's processes: `serve`, `worker` or `simulator`."""
        found = [pid for pid in self.live.instance.tree() if _runs(pid, name)]
        return [*found, *self.second.processes(name)]


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
