"""The simulated world: a real instance, its merchants with their keys, and what was counted."""

import asyncio
import base64
import contextlib
import os
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from manilla_simulator.names import holder_of

from manilla.kit.crypto import Keyring, generate_key
from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.people.roles import Role
from manilla.services import Services
from manilla.splits import service
from tests.faults.live_instance import LiveInstance
from tests.faults.replicated import Replicated
from tests.simulation.clocks import DATABASE, FIRST, SECOND, Clocks
from tests.simulation.facts import Kind, Operation
from tests.simulation.hosts import SecondHost
from tests.simulation.plan import MERCHANTS, RAILS
from tests.simulation.shops import (
    BANK,
    CODES,
    LOST,
    Keys,
    MerchantWorld,
    Shop,
    configure_account,
    configure_methods,
    pays_commission,
)
from tests.support.client import Reply
from tests.support.kinds import BY_RAIL, SEEDED
from tests.web.signed_in_user import SignedInUser, administrator, member, sign_in_again

OPENING_MINOR = 50_000_000
PREVIOUS_KEYS = "MANILLA_MASTER_KEYS_PREVIOUS"
RESERVE = "100000"  # the amount that a settlement leaves in the wallet
PROTECTED = (1, 4)  # the merchants whose large payouts need a second person
THRESHOLD = "1000"
SHOP_TRIES = 5
RECEIVERS = 2  # how many merchants receive shares of each merchant's payments
AUTOMATIC = (2, 6)  # the merchants whose balance is settled every day, without an order
ACCOUNT = "0123456789"  # the settlement account
NEW_MEMBER_SECONDS = 3 * 24 * 3600  # New members may not approve payouts until this time.
EVERYTHING = 10**12  # more than any wallet contains
REQUEST_SECONDS = 30
SECOND_HOST_TURN = 4  # the second host gets each fourth request
# The events that webhook endpoints receive: all final statuses, and all events of disputes.
EVENT_TYPES = ["payment.success", "payment.failed", "refund.completed"]
EVENT_TYPES += [f"payout.{status}" for status in ("completed", "failed", "canceled", "reversed")]
EVENT_TYPES += [f"dispute.{event}" for event in ("opened", "updated", "submitted", "reopened")]
EVENT_TYPES += [f"split.{event}" for event in ("held", "released", "returned", "short")]
EVENT_TYPES += [f"dispute.{event}" for event in ("won", "lost", "accepted", "deadline_missed")]


@dataclass(kw_only=True)
class TeamShop(Shop):
    """A merchant whose team uses the dashboard."""

    owner: SignedInUser
    finance: SignedInUser
    main_keys: Keys
    may_lack_new_keys: bool = False  # True if the last rotation of the keys gave no response
    # The payouts of each payout file, in the order of its rows.
    files: dict[str, list[Operation]] = field(default_factory=dict)
    # The settlements that a member ordered and that may exist.
    settlements: list[Operation] = field(default_factory=list)
    last_settlement: int = 0
    automatic: Operation | None = None  # the next settlement that nobody orders, if there is any


class World(MerchantWorld):
    """Two hosts, a primary and a standby of PostgreSQL, the simulator, and the merchants.

    The first host is `manilla up` with two API processes and a worker.
    """

    live: LiveInstance
    database: Replicated
    second: SecondHost

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder.resolve()
        self.clocks = Clocks()
        self.shops: list[TeamShop] = []
        self.faults: Counter[str] = Counter()
        self.last_failure = ""  # the newest failed command, and its error
        # The wallet adjustments, by the number of their approval, until their result is known.
        self.adjustments: dict[int, Operation] = {}
        self._requests = 0
        self._upgrade = asyncio.Lock()
        self.is_upgraded = False

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
                await configure_account(self.command, BY_RAIL[rail], self.live.simulator)
        await configure_methods(self.command, RAILS)
        for record in await self.live.db.records("SELECT id, code FROM method"):
            self.methods[record["code"]] = record["id"]
        await self.prepare_providers(RAILS)
        for number in range(MERCHANTS):
            self.shops.append(await self._create_shop(number))
        for shop in self.shops:
            for receiver in self.receivers_of(shop):
                await service.invite(self.live.db, shop.id, receiver, is_accepted=True)
        self.administrators = [
            await administrator(self.services, self.live.instance.site, f"{name}@example.com")
            for name in ("ada", "bola", "chike")
        ]
        self.clocks.jump(NEW_MEMBER_SECONDS)
        self.second.start()
        await self.second.until_ready()

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

    async def _create_shop(self, number: int) -> TeamShop:
        """Creates a merchant. A busy machine may reject a request, so this creates another one."""
        for attempt in range(SHOP_TRIES):
            with contextlib.suppress(AssertionError, Unavailable):
                return await self._new_shop(number, f"shop-{number}-{attempt}@example.com")
        raise RuntimeError("The machine is too busy to create the merchants.")

    async def _new_shop(self, number: int, email: str) -> TeamShop:
        made = await self.create_merchant(self.command, number, email)
        shop_id, keys = made["id"], Keys.of(made)
        site = self.live.instance.site
        shop = TeamShop(
            shop_id,
            keys,
            pays_commission=pays_commission(number),
            main_keys=keys,
            owner=await member(self.services, site, shop_id, Role.OWNER),
            finance=await member(self.services, site, shop_id, Role.FINANCE),
        )
        await self.fund(self.command, shop, "opening", OPENING_MINOR)
        await self.add_endpoint(shop, EVENT_TYPES)
        is_automatic = number in AUTOMATIC
        await self._prepare_settlements(shop, "daily" if is_automatic else "manual")
        if is_automatic:
            self.expect_settlement(shop)
        if number in PROTECTED and self.clocks.can_change:
            await self._protect(shop)
        return shop

    def receivers_of(self, shop: Shop) -> list[int]:
        """Returns the merchants that consent to receive shares of this merchant's payments."""
        ids = [each.id for each in self.shops]
        following = ids.index(shop.id) + 1
        return [*ids[following:], *ids][:RECEIVERS]

    def expect_settlement(self, shop: TeamShop) -> None:
        """Records that a settlement may take the whole balance at any time.

        Its amount is not known before it has ended.
        """
        key = shop.id, Kind.PAYOUT, f"automatic after {shop.last_settlement}"
        wanted = Operation(*key, debit=EVERYTHING, credit=EVERYTHING)
        wanted.has_notice, wanted.method = False, "a"
        shop.automatic = self.model.request(wanted)

    async def _prepare_settlements(self, shop: TeamShop, mode: str) -> None:
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

    async def _protect(self, shop: TeamShop) -> None:
        """Makes payouts that a member orders in the dashboard need another person's approval."""
        owner = await self.sign_in(shop.owner, shop)
        form = {"currency": "NGN", "amount": THRESHOLD}
        saved = await owner.post("/production/protection/threshold", form)
        assert saved.status == 303, saved.body

    async def sign_in(self, user: SignedInUser, shop: TeamShop | None = None) -> SignedInUser:
        """Starts a new session, because the clock may have passed the end of the last session."""
        return await sign_in_again(self.services, user, shop.id if shop else None)

    @property
    def databases(self) -> list[Database]:
        return [self.live.db]

    @property
    def services(self) -> Services:
        """The services for functions about signed-in users, which need only these two."""
        key = (self.live.instance.folder / "master.key").read_text()
        keyring = Keyring([base64.b64decode(each) for each in (key, os.environ[PREVIOUS_KEYS])])
        return cast(
            Services, SimpleNamespace(db=self.live.db, keyring=keyring, is_development=True)
        )

    # Requests and commands.

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

    async def upgrade(self) -> None:
        """Upgrades the second host for good, before it has to know what is new."""
        async with self._upgrade:
            self.is_upgraded = True
            if self.second.is_previous:
                await asyncio.to_thread(self.second.change_version)

    def processes(self, name: str) -> list[int]:
        """Returns the ids of a program's processes: `serve`, `worker` or `simulator`."""
        return [*self.live.instance.processes(name), *self.second.processes(name)]
