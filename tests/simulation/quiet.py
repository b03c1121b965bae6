"""The quiet moment: waits until all work is done, and compares the whole world with the model."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

from manilla.ledger import invariants
from tests.client import Reply
from tests.invariants import ALL
from tests.kinds import BY_RAIL
from tests.simulation.administrators import decide
from tests.simulation.faults import DATABASE_ERRORS, FaultSteps
from tests.simulation.model import (
    PENDING,
    SUCCESS,
    Decision,
    Kind,
    Notice,
    Observation,
    Operation,
    ProviderObject,
)
from tests.simulation.operations import VERIFY, MerchantSteps, balance_of, rotate
from tests.simulation.plan import RAILS
from tests.simulation.receiver import notice_of
from tests.simulation.world import LOST, OPENING_MINOR, Shop, World, decoded, minor_of

QUIET_SECONDS_MAX = 300
POLL_SECONDS = 0.5
PRINT_SECONDS = 60
# A payment that is unpaid at this many quiet moments is not queried any more.
UNPAID_MOMENTS = 3
LOW_MINOR = 20_000_000
# The simulator always rejects transfers to this account.
REJECTED = "0000000004"
OURS = "TXN"  # The references that Manilla creates start with this text.
# A transfer through these providers is never sent again.
NOT_RESENT = [kind.provider for kind in BY_RAIL.values() if not kind.resends_transfers]
REFUNDS_NOT_RESENT = [kind.provider for kind in BY_RAIL.values() if not kind.resends_refunds]
# The simulator leaves transfers to this account open.
OPEN = "0000000003"
# While one of these jobs exists, money or a notification is still on its way.
BLOCKING = ["transfer", "refund", "notify", "endpoint", "payout.bulk", "payout.names"]
# Makes waiting jobs due, as if time had passed. Running jobs keep their leases.
MAKE_DUE = """
    UPDATE job SET due_at = now()
     WHERE due_at > now() AND (leased_until IS NULL OR leased_until <= now())
       AND kind = ANY($1) AND subject <> ALL($2)"""
REDELIVER = "ipn redeliver --failed-since 30d"
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
EVENTS = "/api/v1/events?limit=100"
NEWEST = 1000  # The control API lists at most this many objects.


class QuietMoment:
    """Observes the world. It keeps what it saw earlier, and reads only what can have changed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._objects: dict[str, dict[tuple[str, int], ProviderObject]] = {
            kind: {} for kind in ("transfers", "charges", "refunds")
        }
        self._statuses: dict[str, str] = {}
        # The transactions that need no further query, unless they have new events.
        self._settled: set[str] = set()
        self._changed: set[str] = set()
        self._unpaid: Counter[str] = Counter()  # the quiet moments at which a payment was unpaid
        self._looks: Counter[str] = Counter()
        self._events: list[Notice] = []
        # The ids of the merchants' refunds, by rail and the provider's own number.
        self._refunds: dict[tuple[str, int], str] = {}
        self._last_event: dict[int, str] = {}

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
        await self._settle_open_transfers()
        for shop in world.shops:
            await self._restore_keys(shop)
            await MerchantSteps(world, shop).resolve_unknown()
        if any(shop.unknown for shop in world.shops):
            return ["the outcome of a request is still unknown"]
        if not all([await MerchantSteps(world, shop).resolve_files() for shop in world.shops]):
            # A request that nobody can approve any more ends by its job, which is due in a day.
            await world.live.db.execute(MAKE_DUE, BLOCKING, [])
            return ["a payout file is still being paid"]
        steps = [MerchantSteps(world, shop) for shop in world.shops]
        if not all([await each.resolve_settlements() for each in steps]):
            await world.live.db.execute(MAKE_DUE, [*BLOCKING, "settle"], [])
            return ["a settlement is still open"]
        await self._resolve_adjustments()
        stuck = [trx_id for trx_id, looks in self._looks.items() if looks > STUCK_LOOKS]
        await world.live.db.execute(MAKE_DUE, [*BLOCKING, "charge"], stuck)
        if waiting := await self._waiting_jobs():
            await self._resolve_stuck(waiting)
            await self._resolve_stuck_refunds(waiting)
            return [f"the job {job} does not end" for job in waiting]
        seen = await self._observe()
        violations = world.model.check(seen)
        if not violations:
            self._changed.clear()
            for rail in RAILS:
                found = sum(each.rail == rail for each in seen.transfers)
                world.checks[f"transfers at provider {rail}"] = found
            for operation in world.model.operations.values():
                self._forget_final(operation)
        await self._redeliver(violations)
        return violations

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

    def forget(self, kind: str, rail: str) -> None:
        """Forgets the objects of a provider whose records were deleted."""
        objects = self._objects[kind]
        self._objects[kind] = {key: each for key, each in objects.items() if key[0] != rail}

    async def _waiting_jobs(self) -> list[str]:
        """Returns the kind and subject of each job that still has to run."""
        jobs = await self.world.live.db.records(
            "SELECT kind || ' of ' || subject AS name FROM job WHERE kind = ANY($1)", BLOCKING
        )
        return [job["name"] for job in jobs]

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
        """
        stuck = await self.world.live.db.records(
            "SELECT trx_id, provider, charge_reference, amount_minor FROM refund"
            " WHERE trx_id = ANY($1) AND status = 'pending'"
            " AND (sent_at IS NOT NULL AND provider = ANY($2) OR sent_at > first_sent_at)",
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

        A refund of the same charge and amount may be a different refund. Then this returns True.
        """
        [rail] = [rail for rail, kind in BY_RAIL.items() if kind.provider == refund["provider"]]
        listed = await self.world.control(f"{rail}/refunds?limit={NEWEST}")
        wanted = refund["charge_reference"], refund["amount_minor"]
        found = (
            (each["payment_reference"], minor_of(each["amount"])) for each in listed["refunds"]
        )
        return wanted in found

    async def _settle_open_transfers(self) -> None:
        """The providers decide the transfers that they have left open."""
        for rail in RAILS:
            listed = await self.world.control(f"{rail}/transfers?limit={NEWEST}")
            for transfer in listed["transfers"]:
                if transfer["status"] == "processing" and transfer["account_number"] == OPEN:
                    status = "success" if minor_of(transfer["amount"]) % 2 else "failed"
                    path = f"{rail}/transfers/{transfer['reference']}/settle"
                    await self.world.control(path, {"status": status})

    async def _restore_keys(self, shop: Shop) -> None:
        """Creates new keys for a merchant that never got the response to its last rotation."""
        shop.keys = shop.main_keys
        reply = await self.world.call(shop, "GET", "/api/v1/balance")
        if reply is not None and reply.status == 401:
            await rotate(self.world, shop, "--environment", "production")

    async def _observe(self) -> Observation:
        seen = Observation()
        for kind, objects in self._objects.items():
            for rail in RAILS:
                listed = await self.world.control(f"{rail}/{kind}?limit={NEWEST}")
                for each in listed[kind]:
                    reference = each["reference"]
                    if kind == "refunds" and not reference.startswith(OURS):
                        reference = await self._refund_of(rail, each)
                    paid, expected = each.get("amount_paid"), each.get("amount_expected")
                    # The money of such a charge stays in the suspense account.
                    is_wrong = bool(paid) and Decimal(paid) not in (0, Decimal(expected))
                    objects[rail, each["id"]] = ProviderObject(
                        *(rail, reference, minor_of(each["amount"])),
                        "wrong amount" if is_wrong else each["status"],
                    )
        seen.transfers, seen.charges, seen.refunds = (
            list(self._objects[kind].values()) for kind in ("transfers", "charges", "refunds")
        )
        await asyncio.gather(*(self._observe_shop(shop, seen) for shop in self.world.shops))
        seen.statuses = dict(self._statuses)
        receiver = self.world.receiver
        seen.notices, seen.deliveries = list(receiver.notices), list(receiver.deliveries)
        seen.events = list(self._events)
        records = await self.world.live.db.records(
            "SELECT trx_id FROM operator_case WHERE trx_id IS NOT NULL AND status = 'open'"
        )
        seen.cases = {record["trx_id"] for record in records}
        failures = await invariants.check(self.world.live.db, ALL)
        seen.broken = [failure.name for failure in failures if failure.count]
        return seen

    async def _refund_of(self, rail: str, refund: Any) -> str:
        """Returns the id of the merchant's refund, if the provider has only its own number.

        The ledger knows the provider's number, unless the provider's response was lost. Then the
        refund is one with the same payment and amount that has no number yet.
        """
        key, number = (rail, refund["id"]), str(refund["id"])
        if key not in self._refunds:
            payment, amount = refund["payment_reference"].rpartition("-")[0], refund["amount"]
            records = await self.world.live.db.records(
                """
                SELECT trx_id FROM refund
                 WHERE provider = $1 AND (provider_reference = $2 OR provider_reference IS NULL
                   AND payment_trx_id = $3 AND amount_minor = $4 AND trx_id <> ALL($5))
                 ORDER BY provider_reference IS NULL LIMIT 1""",
                *(BY_RAIL[rail].provider, number, payment, minor_of(amount)),
                list(self._refunds.values()),
            )
            if not records:
                return number
            self._refunds[key] = records[0]["trx_id"]
        return self._refunds[key]

    async def _observe_shop(self, shop: Shop, seen: Observation) -> None:
        reply = await self._get(shop, "/api/v1/balance")
        seen.available[shop.id], seen.in_flight[shop.id] = balance_of(reply)
        async for event in self._new_events(shop):
            self._events.append(event)
            self._changed.add(event.trx_id)
        for operation in list(self.world.model.operations.values()):
            if operation.merchant == shop.id and self._can_change(operation):
                await self._observe_status(shop, operation)

    def _can_change(self, operation: Operation) -> bool:
        trx_id, is_reversed = operation.trx_id, operation.is_reversed
        is_settled = trx_id in self._settled and trx_id not in self._changed
        return bool(trx_id) and (is_reversed or not is_settled)

    async def _observe_status(self, shop: Shop, operation: Operation) -> None:
        reply = await self._get(shop, VERIFY[operation.kind] + operation.trx_id)
        status = self._statuses[operation.trx_id] = decoded(reply)["status"]
        if violation := self.world.model.see(operation, status):
            self.world.violations.append(violation)
        decision = self.world.attempted.get(operation.trx_id, Decision.NONE)
        wanted = {Decision.PAID: "success", Decision.REJECTED: "failed"}.get(decision)
        if operation.decision is Decision.NONE and status == wanted:
            # The administrator's command failed after its transaction was committed.
            operation.decision = decision

    async def _new_events(self, shop: Shop) -> AsyncIterator[Notice]:
        while True:
            last = self._last_event.get(shop.id)
            page = decoded(await self._get(shop, EVENTS + (f"&since={last}" if last else "")))
            for event in page["data"]:
                self._last_event[shop.id] = event["id"]
                body = json.loads(event["body"], parse_float=Decimal)
                self._meet_customer(shop, body["data"])
                yield notice_of(event["id"], shop.id, body)
            if len(page["data"]) < 100:
                return

    def _meet_customer(self, shop: Shop, data: Any) -> None:
        """Adds a payment through a link whose customer never got the response."""
        key = (shop.id, Kind.PAYMENT, data["trx_id"])
        if (data["ref_trx"] or "").startswith("LINK-") and key not in self.world.model.operations:
            amount = minor_of(data["amount"])
            found = Operation(*key, credit=amount, amount=amount, has_notice=False)
            self.world.model.accept(self.world.model.request(found), data["trx_id"])

    async def _get(self, shop: Shop, target: str) -> Reply:
        reply = await self.world.call(shop, "GET", target)
        if reply is None or reply.status != 200:
            raise ConnectionError(f"{target}: {reply.body[:200] if reply else 'no response'!r}")
        return reply

    async def _top_up(self) -> None:
        """Funds wallets that have become empty."""
        for shop in self.world.shops:
            available, _ = balance_of(await self._get(shop, "/api/v1/balance"))
            if available < LOW_MINOR:
                number = self.world.checks["quiet moments"]
                await self.world.fund(shop, f"top-up {number}", OPENING_MINOR)
