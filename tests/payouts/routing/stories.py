"""A random sequence of events for payouts with the automatic method.

After each step, the sequence checks the rules that must always hold. A rail contradicts itself if
it pays a transfer that it rejected, or if it changes a final status. In both situations a case must
be open.
"""

import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit import crash, jobs
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job
from manilla.kit.jobs.runner import Runner
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.payouts import decisions, left_rails
from manilla.payouts.payout import Payout
from manilla.providers.claims import CONFIRMATION_SECONDS
from manilla.providers.port import Direction
from manilla.reconciliation.balances import LOOK_BACK
from tests.payouts.model import POINTS, SENDS, Killed
from tests.payouts.model_machine import dying_at
from tests.payouts.observer import PayoutObserver
from tests.payouts.routing.routed import RoutedPayouts
from tests.payouts.routing.stalling import STEPS, StalledJob
from tests.payouts.test_states import send_webhook

AT_FIRST, AMOUNT = 1_000_000, 100_000
PAYOUTS_MAX = 2
NOWHERE = "http://127.0.0.1:1"
NEVER_CONNECTED = "never connected"
ANSWERS = [*SENDS, *["refused", "no funds", "not enabled", NEVER_CONNECTED, "accepted"] * 2]
CRASH_POINTS = [*POINTS, *["before_move_commit", "after_move_commit"] * 2]
WITH_WEBHOOKS = "ac"  # Rail B sends no webhooks about transfers.
WEIGHTS = {
    "work": 8,
    "crash": 4,
    "stall": 4,
    "resume": 4,
    "settle": 4,
    "webhook": 4,
    "pay_out": 3,
    "rail_is": 2,
    "balance_is": 2,
    "merchant_is": 2,
    "administrator_acts": 1,
    "rail_breaks_its_word": 1,
}
PAYING = {"processing", "success"}


class RoutedStory:
    def __init__(
        self, routed: RoutedPayouts, runner: Runner, books: PayoutObserver, rails: str, seed: int
    ) -> None:
        self.routed = routed
        self.runner = runner
        self.books = books
        self.rails = rails
        self.chance = random.Random(seed)
        self.log: list[str] = [f"story {seed} on {rails}"]
        self.payouts: list[str] = []
        self.stalled: dict[str, StalledJob] = {}
        self.down: set[str] = set()
        self.broke_word: set[str] = (
            set()
        )  # payouts that a rail paid after rejecting them, or whose final status a rail changed
        self.lied_about: set[str] = set()  # payouts about which a rail sent a wrong signed webhook
        self.moves = 0
        self.is_ending = False

    async def play(self, steps: int) -> None:
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        try:
            await self.pay_out()
            for name in self.chance.choices(names, weights, k=steps):
                await getattr(self, name)()
                await self.check()
            await self.end()
        except Exception as error:
            raise AssertionError("\n".join([*self.log, str(error)])) from error

    # Possible events.

    async def pay_out(self) -> None:
        if len(self.payouts) == PAYOUTS_MAX:
            await self.work()
            return
        reply = await self.routed.ask()
        self.log.append(f"pay_out: {reply.status} {reply.code}")
        if reply.status == 200:
            self.payouts.append(reply.json["trx_id"])

    async def work(self, crashes_at: str | None = None) -> None:
        claimed = await self._claim()
        if claimed is None:
            return
        payout, job = claimed
        async with self._answers(payout.provider or "") as answer:
            self.log.append(f"work: {self._name(payout.trx_id)} {answer}, crash {crashes_at}")
            with dying_at(crashes_at), contextlib.suppress(Killed):
                crash.point("after_claim")
                await self.runner._do(job)

    async def crash(self) -> None:
        await self.work(self.chance.choice(CRASH_POINTS))

    async def stall(self) -> None:
        claimed = await self._claim()
        if claimed is None or claimed[0].trx_id in self.stalled:
            return
        payout, job = claimed
        step = self.chance.choice(STEPS)
        async with self._answers(payout.provider or "") as answer:
            stalled = StalledJob(self.runner, job, step)
            if await stalled.reached():
                self.stalled[payout.trx_id] = stalled
        self.log.append(f"stall: {self._name(payout.trx_id)} {step} {answer}")

    async def resume(self) -> None:
        if not self.stalled:
            await self.stall()
            return
        trx_id = self.chance.choice(list(self.stalled))
        rail = self.chance.choice(self.rails)
        async with self._answers(f"provider{rail}") as answer:
            self.log.append(f"resume: {self._name(trx_id)} {rail} {answer}")
            await self.stalled.pop(trx_id).resume()

    async def settle(self) -> None:
        """Makes a rail settle an accepted transfer, or return a delivered transfer."""
        words = {"processing": ["success", "success", "failed"], "success": ["reversed"]}
        found = [
            (trx_id, rail, words[status])
            for trx_id, at in (await self._transfers()).items()
            for rail, status in at.items()
            if status in words
        ]
        if not found:
            await self.work()
            return
        trx_id, rail, possible = self.chance.choice(found)
        word = self.chance.choice(possible)
        self.log.append(f"settle: {self._name(trx_id)} {rail} {word}")
        await self.routed.payer.settle(rail, trx_id, word)

    async def webhook(self) -> None:
        """Sends a correct, wrong or forged webhook from a current or earlier rail of the payout."""
        if not self.payouts:
            return
        trx_id = self.chance.choice(self.payouts)
        tried = [each[-1] for each in await self.routed.rails(trx_id)]
        rails = [rail for rail in tried if rail in WITH_WEBHOOKS]
        if not rails:
            return
        rail = self.chance.choice(rails)
        status = (await self._transfers())[trx_id].get(rail, "failed")
        is_forged = self.chance.random() < 0.2
        word = "success" if status == "processing" else status
        if self.chance.random() < 0.15:
            word = self.chance.choice(["success", "failed", "reversed"])
        if word != status and not is_forged:
            self.lied_about.add(trx_id)
        self.log.append(f"webhook: {self._name(trx_id)} {rail} {word}, forged {is_forged}")
        forged = {"secret": "guess"} if is_forged else {}
        reply = await send_webhook(self.routed.payer.merchant.site, rail, trx_id, word, **forged)
        assert reply.status == (401 if is_forged else 200)

    async def rail_is(self) -> None:
        rail = self.chance.choice(self.rails)
        health = self.routed.services.rails.health.rail(f"provider{rail}", Direction.PAY_OUT)
        if rail in self.down:
            self.down.remove(rail)
            health.reset()
        else:
            self.down.add(rail)
            health.is_down = True
        self.log.append(f"down: {self.down}")

    async def balance_is(self) -> None:
        rail, naira = self.chance.choice(self.rails), self.chance.choice([10, 100_000_000])
        self.log.append(f"balance: {rail} {naira}")
        await self.routed.simulator.control(f"{rail}/balance", {"available": naira})
        # With a probability of one half, the router uses its cached balance.
        if self.chance.random() < 0.5:
            self.routed.services.router._funds._kept.clear()

    async def merchant_is(self) -> None:
        status = self.chance.choice([MerchantStatus.APPROVED, MerchantStatus.DISABLED])
        self.log.append(f"merchant: {status}")
        await self.routed.payer.change(MerchantUpdate(status=status))

    async def administrator_acts(self) -> None:
        if not self.payouts:
            return
        trx_id, services = self.chance.choice(self.payouts), self.routed.services
        self.log.append(f"administrator: {self._name(trx_id)}")
        with contextlib.suppress(Refusal):
            if self.chance.random() < 0.5:
                await decisions.requeue(services.db, trx_id)
            else:
                await decisions.reject(services.db, services.rails, trx_id, "By the story.")

    async def rail_breaks_its_word(self) -> None:
        """Makes a rail pay a transfer that it rejected, or change a final status."""
        if not self.payouts:
            return
        trx_id = self.chance.choice(self.payouts)
        at = (await self._transfers())[trx_id]
        left = [each.provider for each in await self.routed.attempts(trx_id) if each.dead_at]
        if left and self.chance.random() < 0.7:
            provider = self.chance.choice(left)
            await self.routed.send_directly(provider[-1], trx_id)
            self.log.append(f"broken word: {self._name(trx_id)} {provider} pays")
        elif at:
            rail = self.chance.choice(sorted(at))
            word = self.chance.choice(["success", "failed", "reversed"])
            await self.routed.payer.settle(rail, trx_id, word, insist=True)
            self.log.append(f"broken word: {self._name(trx_id)} {rail} {word}")
        else:
            return
        self.broke_word.add(trx_id)

    # The following rules must hold after each step.

    async def check(self) -> None:
        seen, transfers = await self.books.seen(), await self._transfers()
        payouts = seen["payouts"] or {}
        cases = {trx_id for _, trx_id in seen["cases"] or []}
        for trx_id, (status, *_) in payouts.items():
            at = transfers[trx_id]
            if trx_id not in self.broke_word:
                problem = _problem(status, at)
                assert problem is None, f"{self._name(trx_id)}: {problem}"
            elif self.is_ending:
                problem = _problem(status, {rail: at[rail] for rail in at if at[rail] != "failed"})
                assert problem is None or trx_id in cases, f"{self._name(trx_id)}: no case"
        kept = [status for status, *_ in payouts.values() if status in ("pending", "completed")]
        assert seen["balance"] == AT_FIRST - AMOUNT * len(kept)
        assert await self.books.broken() == []
        failed = "SELECT count(*) FROM job WHERE merchant_id = $1 AND failures > 0"
        assert await self._db.value(failed, self._merchant_id) == 0

    async def end(self) -> None:
        """Ends the sequence without faults, and checks that each payout has its final status.

        Each status change must have one notification.
        """
        self.log.append("end")
        self.is_ending = True
        await self._repair()
        for _ in range(3 * len(self.rails)):
            for trx_id in await self._pending():
                await self._settle_all(trx_id)
                await self._work_on(trx_id)
        for trx_id in self.payouts:  # A status query finds transfers that the bank has returned.
            await jobs.put(self._db, self._merchant_id, JobKind.TRANSFER, trx_id)
            await self._work_on(trx_id)
        await self._compare_left_rails()
        await self.check()
        await self._check_final()

    async def _repair(self) -> None:
        self.down.clear()
        self._mark_rails_up()
        for rail in self.rails:
            await self.routed.simulator.control(f"{rail}/balance", {"available": 100_000_000})
        self.routed.services.router._funds._kept.clear()
        await self.routed.payer.change(MerchantUpdate(status=MerchantStatus.APPROVED))
        for stalled in self.stalled.values():
            await stalled.resume()
        self.stalled.clear()
        # Make the webhooks older, so that a status query overrides contradicting webhooks.
        await self._db.execute(
            "UPDATE webhook SET last_received_at = last_received_at - make_interval(secs => $2)"
            " WHERE merchant_id = $1",
            *(self._merchant_id, CONFIRMATION_SECONDS),
        )

    async def _settle_all(self, trx_id: str) -> None:
        for rail, status in (await self._transfers())[trx_id].items():
            if status == "processing":
                word = self.chance.choice(["success", "failed"])
                self.log.append(f"settle: {self._name(trx_id)} {rail} {word}")
                await self.routed.payer.settle(rail, trx_id, word)

    async def _pending(self) -> list[str]:
        payouts = (await self.books.seen())["payouts"] or {}
        return [trx_id for trx_id, (status, *_) in payouts.items() if status == "pending"]

    async def _work_on(self, trx_id: str) -> None:
        claimed = await self._claim(trx_id)
        assert claimed is not None
        await self.runner._do(claimed[1])

    async def _compare_left_rails(self) -> None:
        services = self.routed.services
        tried = [each for trx_id in self.payouts for each in await self.routed.attempts(trx_id)]
        for rail in self.rails:
            provider = f"provider{rail}"
            left = [each for each in tried if each.provider == provider and each.sent_reference]
            if left:
                here = services.db, services.rails, provider
                await left_rails.requery_lately(*here, LOOK_BACK, len(left))

    async def _check_final(self) -> None:
        seen, transfers = await self.books.seen(), await self._transfers()
        cases = {trx_id for _, trx_id in seen["cases"] or []}
        for trx_id, (status, notices, _) in (seen["payouts"] or {}).items():
            changes = await self._db.value(
                "SELECT count(*) FROM timeline WHERE merchant_id = $1 AND trx_id = $2"
                " AND from_status <> to_status",
                *(self._merchant_id, trx_id),
            )
            assert len(notices) == changes, f"{self._name(trx_id)}: {notices}"
            is_doubtful = trx_id in self.broke_word | self.lied_about and trx_id in cases
            if not is_doubtful:
                is_paid = "success" in transfers[trx_id].values()
                ends = {"completed"} if is_paid else {"failed", "canceled"}
                assert status in ends, f"{self._name(trx_id)}: {status}, {transfers[trx_id]}"
            self.moves += len(await self.routed.attempts(trx_id)) - 1

    # Helpers.

    @property
    def _db(self) -> Any:
        return self.routed.services.db

    @property
    def _merchant_id(self) -> int:
        return self.routed.payer.merchant.new.id

    def _name(self, trx_id: str) -> str:
        return f"payout {self.payouts.index(trx_id)}"

    async def _claim(self, trx_id: str | None = None) -> tuple[Payout, Job] | None:
        """Claims the job of this payout, or of any payout, and ends another worker's lease."""
        subjects = await self._db.records(
            "SELECT subject FROM job WHERE merchant_id = $1 AND kind = 'transfer' ORDER BY subject",
            self._merchant_id,
        )
        if not subjects:
            return None
        trx_id = trx_id or self.chance.choice([each["subject"] for each in subjects])
        job = await self.routed.claim(trx_id)
        return await self.routed.payer.payout(job.subject), job

    @contextlib.asynccontextmanager
    async def _answers(self, provider: str) -> AsyncIterator[str]:
        """Chooses the rail's responses to the next calls."""
        answer, is_asked = self.chance.choice(ANSWERS), self.chance.random() < 0.75
        wire: Any = getattr(self.routed.services.rails.adapter(provider), "_pay_out", None)
        api = wire.api
        if answer == NEVER_CONNECTED:
            wire.api = msgspec.structs.replace(api, base_url=NOWHERE)
        fault = SENDS[answer][0] if answer in SENDS else None
        planned = [] if fault is None else [{"call": "transfer", **fault}]
        planned += [] if is_asked else [{"call": "transfer_status", "fault": "5xx_before"}]
        await self.routed.plan(provider[-1], *planned)
        try:
            yield f"{answer}, status {is_asked}"
        finally:
            wire.api = api
            await self.routed.plan(provider[-1])
            self._mark_rails_up()

    def _mark_rails_up(self) -> None:
        """Marks all rails as up, except rails that this sequence has marked as down."""
        for rail in set(self.rails) - self.down:
            provider = f"provider{rail}"
            self.routed.services.rails.health.rail(provider, Direction.PAY_OUT).reset()

    async def _transfers(self) -> dict[str, dict[str, str]]:
        """Returns the status of each payout's transfer at each rail that has the transfer."""
        found: dict[str, dict[str, str]] = {trx_id: {} for trx_id in self.payouts}
        for rail in self.rails:
            listed = await self.routed.simulator.read(f"{rail}/transfers?limit=1000")
            for each in listed["transfers"]:
                found[each["reference"]][rail] = each["status"]
        return found


def _problem(status: str, at: dict[str, str]) -> str | None:
    """Returns the rule that the payout's transfers violate, or None."""
    if len(at) > 1:
        return f"more than one rail accepted it: {at}"
    if status in ("failed", "canceled") and PAYING & set(at.values()):
        return f"it was refunded, but a rail pays it: {at}"
    if status == "completed" and not {"success", "reversed"} & set(at.values()):
        return f"it is completed, but no rail paid it: {at}"
    return None
