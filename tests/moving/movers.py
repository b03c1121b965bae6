"""Two cells on one server, a merchant that can be moved between them, and its providers."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from manilla.cells.moving import move as moves
from manilla.cells.moving import replication, rollback, stored
from manilla.cells.moving.move import OnStep
from manilla.cells.moving.stored import Cells, Step, StoredMove
from manilla.kit.database.connections import Database
from manilla.kit.embedded.postgres import HERE, Cluster
from manilla.kit.environment import Environment
from manilla.ledger import clearing
from manilla.ledger.invariants import Finding
from manilla.proofs import chain, proofs, verify
from manilla.settings import Settings
from tests.cells.pair import CellPair, RunningCell, running_pair
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.client import new_merchant
from tests.support.provider_simulator import ProviderSimulator, _configure, running_simulator


class Killed(Exception):
    """Ends a move at a step, as if its process had been killed."""


def replication_url(url: str, server: Cluster | None = None) -> str:
    """Returns the URL with which the second cell's server connects to the first cell's database.

    `server`: the first cell's server, or None if both cells are on one server. The servers' account
    may not have access to the parent folders of the socket.
    """
    address = url.partition("?")[0]
    if "@/" not in address:
        return address
    return f"{address}?host={HERE if server is None else f'/proc/{server_pid(server)}/cwd'}"


def server_pid(cluster: Cluster) -> int:
    return int((cluster.folder / "postmaster.pid").read_text().split()[0])


async def _do_nothing(_step: Step, _seconds: float) -> None:
    return


class Mover:
    """Moves the merchant between two cells, and sends its requests to the chosen cell."""

    def __init__(
        self,
        pair: CellPair,
        owners: dict[str, Database],
        urls: dict[str, str],
        replication_urls: dict[str, str],
        simulators: dict[str, ProviderSimulator],
        payers: dict[str, PayoutMerchant],
    ) -> None:
        self.pair = pair
        self.owners = owners
        self.urls = urls
        self.replication_urls = replication_urls
        self.simulators = simulators
        self.payers = payers

    @property
    def merchant_id(self) -> int:
        return self.payers["lagos"].merchant.new.id

    def db(self, cell: str) -> Database:
        return self.running(cell).services.db

    def running(self, cell: str) -> RunningCell:
        found: RunningCell = getattr(self.pair, cell)
        return found

    def cells(self, to: str) -> Cells:
        first, second = ("lagos", "abuja") if to == "abuja" else ("abuja", "lagos")
        return Cells(
            self.owners[first],
            self.owners[second],
            self.running(first).services.keyring,
            self.replication_urls[first],
            (self.urls[first], self.urls[second]),
        )

    async def begin(
        self, to: str = "abuja", *, merchant_id: int | None = None, invites: bool = False
    ) -> StoredMove:
        who = merchant_id or self.merchant_id
        return await moves.begin(self.cells(to), who, to, invites=invites)

    async def move(
        self,
        to: str = "abuja",
        on_step: OnStep = _do_nothing,
        *,
        merchant_id: int | None = None,
        invites: bool = False,
    ) -> list[str]:
        """Moves the merchant, and returns the email addresses of the members who are invited."""
        begun = await self.begin(to, merchant_id=merchant_id, invites=invites)
        await moves.run_steps(self.cells(to), begun, on_step)
        await self.pair.look()
        return await moves.invited_emails(self.cells(to).target, begun)

    async def move_until(self, last: Step, to: str = "abuja") -> None:
        """Ends a move after the work of a step, before the end of the step is stored."""

        async def kill(step: Step, _seconds: float) -> None:
            if step is last:
                raise Killed

        with contextlib.suppress(Killed):
            await self.move(to, kill)
        await self.pair.look()

    async def resume(self, to: str = "abuja") -> None:
        await moves.run_steps(self.cells(to), await self._open(to), _do_nothing)
        await self.pair.look()

    async def abort(self, to: str = "abuja") -> None:
        await rollback.abort(self.cells(to), await self._open(to))
        await self.pair.look()

    async def reconnect(self, *cells: str) -> None:
        """Closes the sessions to the cells' databases after a crash or a failover."""
        for cell in cells:
            await self.db(cell).reconnect()
            await self.owners[cell].reconnect()
        await self.pair.look()

    async def _open(self, to: str) -> StoredMove:
        found = await stored.find_open(self.cells(to).source, self.merchant_id)
        assert found is not None
        return found

    async def other_merchant(self, cell: str) -> PayoutMerchant:
        """Creates another merchant in a cell, with 10,000.00 in its wallet."""
        services = self.running(cell).services
        merchant = await new_merchant(
            *(self.running(cell).site, services.db, services.keyring),
            environment=Environment.PRODUCTION,
        )
        other = PayoutMerchant(services, self.simulators[cell], merchant)
        await other.fund("10000")
        return other

    async def broken(self, cell: str) -> list[Any]:
        """Returns everything that the ledger check or the independent program finds in a cell."""
        db = self.db(cell)
        await chain.extend(db)
        await clearing.add_final_postings(db)
        findings: list[Finding] = await proofs.check(db)
        verified = await verify.run(self.urls[cell], [], None)
        return [each for each in findings if each.count] + list(verified.findings)

    async def is_clean(self) -> bool:
        """Returns whether no slot, subscription or publication is left."""
        for owner in self.owners.values():
            for table in ("pg_replication_slots", "pg_publication", "pg_subscription"):
                if await owner.number(f"SELECT count(*) FROM {table}"):
                    return False
        return True

    async def balance(self, cell: str) -> int | None:
        found: int | None = await self.db(cell).value(
            "SELECT balance_minor FROM wallet WHERE merchant_id = $1"
            " AND environment = 'production' AND currency = 'NGN'",
            self.merchant_id,
        )
        return found


@contextlib.asynccontextmanager
async def two_cells(
    cluster: Cluster, settings: Settings, second: Cluster | None = None
) -> AsyncIterator[Mover]:
    """Runs the cells lagos and abuja with the same provider accounts, and a merchant in lagos.

    The merchant has 10,000.00. `second`: the database server of abuja, or None if both cells are on
    one server.
    """
    async with contextlib.AsyncExitStack() as stack:
        pair = await stack.enter_async_context(running_pair(cluster, settings, "moving", second))
        urls, owners, replication_urls = {}, {}, {}
        for name, server in (("lagos", cluster), ("abuja", second or cluster)):
            urls[name] = server.url("manilla_owner", f"moving_{name}")
            replication_urls[name] = replication_url(urls[name], server if second else None)
            owners[name] = await Database.open(urls[name], size=5, name="tests owner")
            stack.push_async_callback(owners[name].close)
        simulator = await stack.enter_async_context(running_simulator(pair.lagos.services))
        for provider in "abc":
            await simulator.control(f"{provider}/balance", {"available": 100_000_000})
        await _configure(pair.abuja.services, simulator._tested, simulator.url)
        await pair.look()
        await pair.abuja.services.rails.load()
        simulators = {"lagos": simulator, "abuja": simulator.used_by(pair.abuja.services)}
        lagos = pair.lagos.services
        merchant = await new_merchant(
            pair.lagos.site, lagos.db, lagos.keyring, environment=Environment.PRODUCTION
        )
        payers = {
            "lagos": PayoutMerchant(lagos, simulator, merchant),
            "abuja": PayoutMerchant(
                pair.abuja.services,
                simulators["abuja"],
                msgspec.structs.replace(merchant, site=pair.abuja.site),
            ),
        }
        await payers["lagos"].fund("10000")
        try:
            yield Mover(pair, owners, urls, replication_urls, simulators, payers)
        finally:
            # A test that failed leaves its slot, and the database could not be dropped.
            for owner in owners.values():
                await replication.unsubscribe(owner, merchant.new.id)
            for owner in owners.values():
                await replication.unpublish(owner, merchant.new.id, None)
