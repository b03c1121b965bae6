"""The quiet moment: waits until all work is done, and compares the whole world with the model."""

import asyncio
import time
from collections import Counter
from typing import Any

from tests.simulation import dispute_records, splits
from tests.simulation.administrators import decide
from tests.simulation.facts import Decision, Kind, Observation, Operation
from tests.simulation.faults import DATABASE_ERRORS, FaultSteps
from tests.simulation.model import PENDING, SUCCESS
from tests.simulation.observing import BLOCKING, MAKE_DUE, Observer
from tests.simulation.operations import balance_of, debts_of
from tests.simulation.plan import RAILS
from tests.simulation.shops import LOST, minor_of
from tests.simulation.teams import TeamSteps, rotate
from tests.simulation.world import OPENING_MINOR, SECOND_HOST_TURN, TeamShop, World
from tests.support.kinds import BY_RAIL

# A lease that PostgreSQL granted while its clock was ahead ends up to five minutes late.
QUIET_SECONDS_MAX = 600
POLL_SECONDS = 0.5
PRINT_SECONDS = 60
# A payment that is unpaid at this many quiet moments is not queried any more.
UNPAID_MOMENTS = 3
LOW_MINOR = 20_000_000
# The simulator always rejects transfers to this account.
REJECTED = "0000000004"
# A transfer through these providers is never sent again.
NOT_RESENT = [kind.provider for kind in BY_RAIL.values() if not kind.resends_transfers]
REFUNDS_NOT_RESENT = [kind.provider for kind in BY_RAIL.values() if not kind.resends_refunds]
REDELIVER = "ipn redeliver --failed-since 30d"
RECONCILE = "reconcile"
# These jobs query providers for as long as a charge or an account is open.
WATCHING = ["charge", "way.charge", "saved_way", "account", "account.transfer", "split"]
# An administrator acts on a payout or notification that is still open after this many looks.
STUCK_LOOKS = 12
A_DAY_PASSES = """
    UPDATE payout SET began_at = began_at - interval '25 hours',
           last_sent_at = last_sent_at - interval '25 hours'
     WHERE trx_id = $1"""
FOUR_DAYS_PASS = """
    UPDATE refund SET created_at = created_at - interval '4 days',
           sent_at = sent_at - interval '4 days', first_sent_at = first_sent_at - interval '4 days'
     WHERE trx_id = $1"""


class QuietMoment(Observer):
    """Lets the remaining work run, and compares the world with the model."""

    world: World

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._unpaid: Counter[str] = Counter()  # the quiet moments at which a payment was unpaid
        self._looks: Counter[str] = Counter()

    async def reach(self, faults: FaultSteps) -> list[str]:
        """Waits until the model explains everything. Returns what it cannot explain in time."""
        world, deadline = self.world, time.monotonic() + QUIET_SECONDS_MAX
        await faults.end()
        world.second.start()
        await faults.time_passes()
        violations, printed = ["the instance does not respond"], time.monotonic()
        while time.monotonic() < deadline:
            if time.monotonic() > printed + PRINT_SECONDS:
                printed = time.monotonic()
                print("waiting:", *violations[:5], sep="\n  ", flush=True)
            try:
                violations = await self.look()
            except (*LOST, *DATABASE_ERRORS, AssertionError, KeyError) as error:
                violations = [f"the instance does not respond: {error!r}"]
            if not violations:
                world.checks["quiet moments"] += 1
                await self._top_up()
                return []
            await asyncio.sleep(POLL_SECONDS)
        return violations

    async def look(self) -> list[str]:
        """Lets waiting work run, and returns what the model cannot explain at this moment."""
        world = self.world
        await self.settle_open_transfers()
        for shop in world.shops:
            await self._restore_keys(shop)
            await TeamSteps(world, shop).resolve_unknown()
        if any(shop.unknown for shop in world.shops):
            return ["the outcome of a request is still unknown"]
        if not all([await TeamSteps(world, shop).resolve_files() for shop in world.shops]):
            # A request that nobody can approve any more ends by its job, which is due in a day.
            await world.live.db.execute(MAKE_DUE, BLOCKING, [])
            return ["a payout file is still being paid"]
        steps = [TeamSteps(world, shop) for shop in world.shops]
        if not all([await each.resolve_settlements() for each in steps]):
            await world.live.db.execute(MAKE_DUE, [*BLOCKING, "settle"], [])
            return ["a settlement is still open"]
        await self._resolve_adjustments()
        if not world.prices.have_started:
            return ["a change of prices has not started"]
        stuck = [trx_id for trx_id, looks in self._looks.items() if looks > STUCK_LOOKS]
        await world.live.db.execute(MAKE_DUE, [*BLOCKING, *WATCHING], stuck)
        if waiting := await self.waiting_jobs():
            await self._resolve_stuck(waiting)
            await self._resolve_stuck_refunds(waiting)
            return [f"the job {job} does not end" for job in waiting]
        await self._resolve_disputes()
        await self._resolve_transfers()
        seen = await self.observe()
        await self._observe_disputes(seen)
        violations = world.model.check(seen)
        if not violations:
            self._changed.clear()
            world.prices.settle()
            world.model.settle_disputes(seen)
            world.checks["disputes"] = len(seen.disputes)
            world.checks["shares"] = len(seen.shares)
            world.checks["shares that are short"] += any(each.short for each in seen.shares)
            for rail in RAILS:
                found = sum(each.rail == rail for each in seen.transfers)
                world.checks[f"transfers at provider {rail}"] = found
            world.checks["transfers into accounts"] = len(seen.received)
            for operation in world.model.operations.values():
                self._forget_final(operation)
        await self._redeliver(violations)
        return violations

    async def _resolve_transfers(self) -> None:
        """Learns which transfers into customers' accounts were received.

        Polling finds those of the last days, and the providers' statements find the others.
        """
        await self.read_providers()
        for shop in self.world.shops:
            await TeamSteps(self.world, shop).resolve_transfers(set(self._received))
        is_missing = not all(each.trx_id for each in self.world.transfers.values())
        self._looks[RECONCILE] += is_missing
        if self._looks[RECONCILE] > STUCK_LOOKS:
            self._looks[RECONCILE] = 0
            await self.world.try_command(RECONCILE)
            self.world.operations["administrator: reconcile"] += 1

    async def _resolve_disputes(self) -> None:
        """Lets administrators and jobs do what is left to do about disputes."""
        await dispute_records.record_manually(self.world)
        await dispute_records.send_manually(self.world)
        await dispute_records.poll(self.world)

    async def _observe_disputes(self, seen: Observation) -> None:
        seen.disputes = await dispute_records.records_of(self.world)
        seen.shares = await splits.records_of(self.world)
        for rail in RAILS:
            seen.claims += await dispute_records.claims_of(self.world, rail)
        for shop in self.world.shops:
            for _ in range(SECOND_HOST_TURN):
                # The previous release knows no disputes.
                debts = debts_of(await self._get(shop, "/api/v1/balance"))
                if debts is not None:
                    seen.withheld[shop.id], seen.short[shop.id] = debts
                    break

    async def _resolve_adjustments(self) -> None:
        """Learns which wallet adjustments the second administrator has approved."""
        records = await self.world.live.db.records(
            "SELECT id, status FROM approval WHERE id = ANY($1)", list(self.world.adjustments)
        )
        found = {record["id"]: record["status"] for record in records}
        for number, adjustment in self.world.adjustments.items():
            self.world.model.decide(adjustment, is_approved=found.get(number) == "approved")
        self.world.adjustments.clear()

    async def _redeliver(self, violations: list[str]) -> None:
        """Sends failed notifications again, as administrators do when a receiver was down."""
        self._looks[REDELIVER] += any("the receiver got" in each for each in violations)
        if self._looks[REDELIVER] > STUCK_LOOKS:
            self._looks[REDELIVER] = 0
            await self.world.try_command(*REDELIVER.split())
            self.world.operations["administrator: redeliver notifications"] += 1

    def _forget_final(self, operation: Operation) -> None:
        """Stops queries about an operation that is final, or that no customer pays any more."""
        is_unpaid = operation.kind is Kind.PAYMENT and operation.status != SUCCESS
        self._unpaid[operation.trx_id] += is_unpaid
        if operation.status != PENDING and not is_unpaid:
            self._settled.add(operation.trx_id)
        if self._unpaid[operation.trx_id] > UNPAID_MOMENTS:
            self._settled.add(operation.trx_id)

    async def _resolve_stuck(self, waiting: list[str]) -> None:
        """Rejects payouts that their provider never received, as administrators do after a day.

        If the outcome of the first send is unknown, and the provider rejects the second send or
        nothing is sent again, the payout stays pending until an administrator decides.
        """
        rejected = await self.world.live.db.records(
            "SELECT trx_id FROM payout WHERE trx_id = ANY($1) AND status = 'pending'"
            " AND began_at IS NOT NULL"
            " AND (beneficiary->>'account_number' = $2 OR provider = ANY($3))",
            *([job.rpartition(" ")[2] for job in waiting], REJECTED, NOT_RESENT),
        )
        for trx_id in (record["trx_id"] for record in rejected):
            self._looks[trx_id] += 1
            looks = self._looks[trx_id]
            if looks == STUCK_LOOKS or looks > STUCK_LOOKS + 1:
                await self.world.live.db.execute(A_DAY_PASSES, trx_id)
            if looks > STUCK_LOOKS + 1:
                words = ("payout", "reject", trx_id, "--reason", "It never arrived")
                if await self.world.try_command(*words) is not None:
                    self.world.operations["administrator: reject stuck payout"] += 1

    async def _resolve_stuck_refunds(self, waiting: list[str]) -> None:
        """Rejects refunds that their provider never received and does not accept any more.

        Some refunds are never sent again, and the rejection of a refund that was sent again is not
        conclusive. The platform leaves such a refund to an administrator after three days.

        A second send can be earlier than the first, if PostgreSQL's clock was wrong at the first.
        """
        stuck = await self.world.live.db.records(
            "SELECT trx_id, provider, charge_reference, amount_minor FROM refund"
            " WHERE trx_id = ANY($1) AND status = 'pending'"
            " AND (sent_at IS NOT NULL AND provider = ANY($2) OR sent_at <> first_sent_at)",
            *([job.rpartition(" ")[2] for job in waiting], REFUNDS_NOT_RESENT),
        )
        for record in stuck:
            trx_id = record["trx_id"]
            self._looks[trx_id] += 1
            if self._looks[trx_id] == STUCK_LOOKS // 2 or self._looks[trx_id] > STUCK_LOOKS:
                await self.world.live.db.execute(FOUR_DAYS_PASS, trx_id)
            if self._looks[trx_id] > STUCK_LOOKS:
                operations = self.world.model.operations.values()
                [refund] = [each for each in operations if each.trx_id == trx_id]
                checked = () if await self._is_at_provider(record) else ("--checked",)
                await decide(self.world, refund, Decision.REJECTED, *checked)
                self.world.operations["administrator: reject stuck refund"] += 1

    async def _is_at_provider(self, refund: Any) -> bool:
        """Looks a refund up at the provider, as an administrator does.

        A charge can have several refunds of the same amount. The provider has this refund if it
        lists more refunds of this amount than Manilla has recorded as completed.
        """
        [rail] = [rail for rail, kind in BY_RAIL.items() if kind.provider == refund["provider"]]
        wanted = refund["charge_reference"], refund["amount_minor"]
        listed = [
            (self._charge_of(rail, each), minor_of(each["amount"]))
            for each in await self._listed(rail, "refunds")
        ]
        paid = await self.world.live.db.number(
            "SELECT count(*) FROM refund WHERE charge_reference = $1 AND amount_minor = $2"
            " AND status = 'completed'",
            *wanted,
        )
        return listed.count(wanted) > paid

    async def _restore_keys(self, shop: TeamShop) -> None:
        """Creates new keys for a merchant that never got the response to its last rotation."""
        shop.keys = shop.main_keys
        reply = await self.world.call(shop, "GET", "/api/v1/balance")
        if (reply is not None and reply.status == 401) or shop.may_lack_new_keys:
            await rotate(self.world, shop, "--environment", "production")

    async def _top_up(self) -> None:
        """Funds wallets that have become empty."""
        for shop in self.world.shops:
            available, _ = balance_of(await self._get(shop, "/api/v1/balance"))
            if available < LOW_MINOR:
                number = self.world.checks["quiet moments"]
                await self.world.fund(self.world.command, shop, f"top-up {number}", OPENING_MINOR)
