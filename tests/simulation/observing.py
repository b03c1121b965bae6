"""Observes the world from outside: the API, the events, the providers' records and the ledgers."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Any

from manilla.ledger import invariants
from tests.simulation.facts import Decision, Kind, Notice, Observation, Operation, ProviderObject
from tests.simulation.model import MISSING
from tests.simulation.operations import VERIFY, balance_of
from tests.simulation.plan import RAILS
from tests.simulation.receiver import notice_of
from tests.simulation.shops import MerchantWorld, Shop, decoded, minor_of
from tests.support.client import Reply
from tests.support.invariants import ALL
from tests.support.kinds import BY_RAIL

OURS = "TXN"  # prefix of the references that Manilla creates
EVENTS = "/api/v1/events?limit=100"
# The ledger's name of a refund's final status at the provider.
IN_LEDGER = {"success": "completed", "failed": "failed"}
PAGE = 1000  # The control API lists at most this many objects at once.
# The simulator leaves transfers to this account open.
OPEN = "0000000003"
# While one of these jobs exists, money or a notification is still on its way.
BLOCKING = ["transfer", "refund", "notify", "endpoint", "payout.bulk", "payout.names"]
# Makes waiting jobs due, as if time had passed. Running jobs keep their leases.
MAKE_DUE = """
    UPDATE job SET due_at = now()
     WHERE due_at > now() AND (leased_until IS NULL OR leased_until <= now())
       AND kind = ANY($1) AND subject <> ALL($2)"""


class Observer:
    """Observes the world. It keeps what it saw earlier, and reads only what can have changed."""

    def __init__(self, world: MerchantWorld, rails: Sequence[str] = RAILS) -> None:
        self.world = world
        self._rails = rails
        self._objects: dict[str, dict[tuple[str, int], ProviderObject]] = {
            kind: {} for kind in ("transfers", "charges", "refunds")
        }
        self._statuses: dict[str, str] = {}
        # The transactions that need no further query, unless they have new events.
        self._settled: set[str] = set()
        self._changed: set[str] = set()
        self._events: list[Notice] = []
        # The ids of the merchants' refunds, by rail and the provider's own number.
        self._refunds: dict[tuple[str, int], str] = {}
        # The refunds without a number that were found by payment and amount during this look.
        self._guessed: set[str] = set()
        self._last_event: dict[int, str] = {}
        # The transfers into customers' accounts by payer, and their payers by reference.
        self._received: dict[str, ProviderObject] = {}
        self._payers: dict[tuple[str, str], str] = {}
        self._accounts: dict[tuple[str, str], str] = {}  # the event of each status of an account

    def forget(self, kind: str, rail: str) -> None:
        """Forgets the objects of a provider whose records were deleted."""
        objects = self._objects[kind]
        self._objects[kind] = {key: each for key, each in objects.items() if key[0] != rail}

    async def waiting_jobs(self) -> list[str]:
        """Returns the kind and subject of each job that still has to run."""
        query = "SELECT kind || ' of ' || subject AS name FROM job WHERE kind = ANY($1)"
        jobs = [await db.records(query, BLOCKING) for db in self.world.databases]
        return [job["name"] for found in jobs for job in found]

    async def settle_open_transfers(self) -> None:
        """The providers decide the transfers that they have left open."""
        for rail in self._rails:
            for transfer in await self._listed(rail, "transfers"):
                if transfer["status"] == "processing" and transfer["account_number"] == OPEN:
                    status = "success" if minor_of(transfer["amount"]) % 2 else "failed"
                    path = f"{rail}/transfers/{transfer['reference']}/settle"
                    await self.world.control(path, {"status": status})

    async def read_providers(self) -> None:
        """Reads the records of all providers."""
        self._guessed.clear()
        for kind, objects in self._objects.items():
            for rail in self._rails:
                for each in await self._listed(rail, kind):
                    reference = each["reference"]
                    if payer := each.get("payer"):
                        self._payers[rail, reference] = payer
                        found = ProviderObject(
                            rail, payer, minor_of(each["amount"]), each["status"]
                        )
                        self._received[payer] = found
                        continue
                    if kind == "refunds" and not reference.startswith(OURS):
                        reference = await self._refund_of(rail, each)
                    paid, expected = each.get("amount_paid"), each.get("amount_expected")
                    # The money of such a charge stays in the suspense account.
                    is_wrong = bool(paid) and Decimal(paid) not in (0, Decimal(expected))
                    objects[rail, each["id"]] = ProviderObject(
                        *(rail, reference, minor_of(each["amount"])),
                        "wrong amount" if is_wrong else each["status"],
                        each.get("duplicates", 0),
                    )

    async def observe(self) -> Observation:
        await self.read_providers()
        seen = Observation()
        seen.transfers, seen.charges, seen.refunds = (
            list(self._objects[kind].values()) for kind in ("transfers", "charges", "refunds")
        )
        seen.received = list(self._received.values())
        await asyncio.gather(*(self._observe_shop(shop, seen) for shop in self.world.shops))
        seen.statuses = dict(self._statuses)
        receiver = self.world.receiver
        seen.notices, seen.deliveries = list(receiver.notices), list(receiver.deliveries)
        seen.events = list(self._events)
        for db in self.world.databases:
            records = await db.records(
                "SELECT trx_id FROM operator_case WHERE trx_id IS NOT NULL AND status = 'open'"
            )
            seen.cases |= {record["trx_id"] for record in records}
            failures = await invariants.check(db, ALL)
            seen.broken += [failure.name for failure in failures if failure.count]
        return seen

    async def _listed(self, rail: str, kind: str) -> list[Any]:
        """Returns all objects of a kind at a provider, newest first.

        An object that is added meanwhile can repeat another one, but none is left out.
        """
        found: list[Any] = []
        while True:
            path = f"{rail}/{kind}?limit={PAGE}&offset={len(found)}"
            page = (await self.world.control(path))[kind]
            found += page
            if len(page) < PAGE:
                return found

    async def _refund_of(self, rail: str, refund: Any) -> str:
        """Returns the id of the merchant's refund, if the provider has only its own number.

        The ledger knows the provider's number, unless the provider's response was lost. Then the
        refund is one with the same payment and amount that has no number yet. If there are several,
        nobody can tell them apart, so this returns one that agrees with the provider's status.
        """
        key, number = (rail, refund["id"]), str(refund["id"])
        if key in self._refunds:
            return self._refunds[key]
        payment, amount = self._charge_of(rail, refund).rpartition("-")[0], refund["amount"]
        for db in self.world.databases:
            records = await db.records(
                """
                SELECT trx_id, provider_reference IS NOT NULL AS has_number FROM refund
                 WHERE provider = $1 AND (provider_reference = $2 OR provider_reference IS NULL
                   AND payment_trx_id = $3 AND amount_minor = $4 AND trx_id <> ALL($5))
                 ORDER BY provider_reference IS NULL, status = $6 DESC LIMIT 1""",
                *(BY_RAIL[rail].provider, number, payment, minor_of(amount)),
                *(list(self._guessed), IN_LEDGER.get(refund["status"], "pending")),
            )
            for trx_id, has_number in records:
                if has_number:
                    self._refunds[key] = trx_id
                else:
                    self._guessed.add(trx_id)
                return str(trx_id)
        return number

    def _charge_of(self, rail: str, refund: Any) -> str:
        """Returns our reference of the refunded charge."""
        reference: str = refund["payment_reference"]
        payer = self._payers.get((rail, reference))
        found = self.world.transfers.get(payer or "")
        return f"{found.trx_id}-1" if found else reference

    async def _observe_shop(self, shop: Shop, seen: Observation) -> None:
        reply = await self._get(shop, "/api/v1/balance")
        seen.available[shop.id], seen.in_flight[shop.id] = balance_of(reply)
        async for event in self.new_events(shop):
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
        reply = await self._get(shop, VERIFY[operation.kind] + operation.trx_id, 200, 404)
        if reply.status == 404:
            self._statuses[operation.trx_id] = MISSING
            return
        status = self._statuses[operation.trx_id] = decoded(reply)["status"]
        if violation := self.world.model.see(operation, status):
            self.world.violations.append(violation)
        decision = self.world.attempted.get(operation.trx_id, Decision.NONE)
        wanted = {Decision.PAID: "success", Decision.REJECTED: "failed"}.get(decision)
        if operation.decision is Decision.NONE and status == wanted:
            # The administrator's command failed after its transaction was committed.
            operation.decision = decision

    async def new_events(self, shop: Shop) -> AsyncIterator[Notice]:
        while True:
            last = self._last_event.get(shop.id)
            page = decoded(await self._get(shop, EVENTS + (f"&since={last}" if last else "")))
            for event in page["data"]:
                self._last_event[shop.id] = event["id"]
                body = json.loads(event["body"], parse_float=Decimal)
                if body["event"] == "account":
                    self._meet_account(notice_of(event["id"], shop.id, body))
                    continue
                if body["event"] not in ("dispute", "split"):
                    self._meet_customer(shop, body["data"])
                yield notice_of(event["id"], shop.id, body)
            if len(page["data"]) < 100:
                return

    def _meet_account(self, notice: Notice) -> None:
        """Each status of a customer's account has one event."""
        key = notice.trx_id, notice.message
        if self._accounts.setdefault(key, notice.id) != notice.id:
            self.world.violations.append(f"{notice.trx_id} has several events {notice.message}")

    def _meet_customer(self, shop: Shop, data: Any) -> None:
        """Adds a payment through a link whose customer never got the response."""
        key = (shop.id, Kind.PAYMENT, data["trx_id"])
        if (data["ref_trx"] or "").startswith("LINK-") and key not in self.world.model.operations:
            amount = minor_of(data["amount"])
            found = Operation(*key, credit=amount, amount=amount, has_notice=False)
            self.world.model.accept(self.world.model.request(found), data["trx_id"])

    async def _get(self, shop: Shop, target: str, *expected: int) -> Reply:
        reply = await self.world.call(shop, "GET", target)
        if reply is None or reply.status not in (expected or (200,)):
            raise ConnectionError(f"{target}: {reply.body[:200] if reply else 'no response'!r}")
        return reply
