"""Runs each action on the model and on Manilla, and compares the results.

After each action, the visible state is compared, and every ledger invariant is checked for the
merchant of this run.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from manilla import worker
from manilla.kit import crash
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job, claims
from manilla.kit.jobs.runner import Runner
from manilla.kit.money import Money
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.payouts import decisions
from manilla.providers.port import Direction
from manilla.services import Services
from tests.payments import webhooks
from tests.payouts.model import (
    AT_FIRST,
    MIDDLING,
    SENDS,
    Killed,
    Model,
    Order,
    fee_of,
)
from tests.payouts.observer import PayoutObserver
from tests.payouts.payout_merchant import BANKS, INITIATE, MANUAL, RAILS, VERIFY
from tests.support.client import Merchant, Reply, Site
from tests.support.provider_simulator import ProviderSimulator

STATUSES = {"MERCHANT_SUSPENDED": 403, "SERVICE_UNAVAILABLE": 503}


class Stage:
    """The resources that all runs share: the platform, a simulator and an observer of payouts."""

    def __init__(
        self, services: Services, site: Site, simulator: ProviderSimulator, books: PayoutObserver
    ) -> None:
        self.services = services
        self.site = site
        self.simulator = simulator
        self.books = books
        self.methods: dict[str, int] = {}
        self.runner = Runner(services.db, worker.job_handlers(services))
        self.numbers = itertools.count(1)

    async def open(self) -> "Stage":
        # Reset the faults that earlier tests have set in all processes.
        await self.services.db.execute("UPDATE rail_state SET is_down = false")
        await self.services.rails.health._refresh(0)
        for rail in (*RAILS, MANUAL):
            code = RAILS.get(rail, rail)
            self.methods[rail] = await self.services.db.value(
                "SELECT id FROM method WHERE code = $1", code
            )
        return self


class Machine:
    """One run with a new merchant, which exists in Manilla and in the model."""

    def __init__(self, stage: Stage, merchant: Merchant, rail: str, checks_every: int) -> None:
        self.stage = stage
        # the number of steps between two checks of the invariants
        self._checks_every = checks_every
        self._steps = 0
        self.merchant = merchant
        self.rail = rail
        self.model = Model()
        self.trx_ids: dict[str, str] = {}
        self.frozen: dict[str, tuple[Job, int]] = {}
        provider = f"provider{rail}"
        self._health = stage.services.rails.health.rail(provider, Direction.PAY_OUT)

    @classmethod
    async def start(cls, stage: Stage, rail: str, *, checks_every: int = 1) -> "Machine":
        services = stage.services
        new = await merchants.create(
            services.db,
            services.keyring,
            name="Ada Stores",
            email="ada@example.com",
            status=MerchantStatus.APPROVED,
        )
        await services.db.execute(
            "UPDATE job SET due_at = 'infinity' WHERE kind = 'transfer' AND merchant_id <> $1",
            new.id,
        )
        await stage.simulator.control("reset", {})
        quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
        await stage.simulator.control(f"{rail}/faults", quiet)
        await stage.books.of(new.id)
        merchant = Merchant(stage.site.from_new_ip(), new, Environment.PRODUCTION)
        machine = cls(stage, merchant, rail, checks_every)
        machine._health.reset()
        await machine.fund(AT_FIRST)
        return machine

    async def happens(self, name: str, arguments: dict[str, Any]) -> None:
        """Runs one step, and checks that the model and Manilla have the same state afterwards."""
        rest = dict(arguments)
        if "which" not in rest:
            await getattr(self, name)(**rest)
        elif eligible := self._eligible(name):
            order = eligible[rest.pop("which") % len(eligible)]
            await getattr(self, name)(order, **rest)
        # If the action is not possible yet, run another step, so that it is possible next time.
        elif eligible := self._eligible("work"):
            await (self.freeze if name == "resume" else self.work)(eligible[0])
        else:
            await self.pay_out(is_manual=False, amount=MIDDLING)
        await self._compare()

    def _eligible(self, name: str) -> list[Order]:
        """Returns the payouts on which the action is possible, newest first."""
        orders = list(reversed(self.model.orders.values()))
        match name:
            case "work" | "crash" | "freeze" | "rail_is_down":
                return [order for order in orders if order.is_worked_on]
            case "resume":
                return [order for order in orders if order.ref_trx in self.frozen]
            case "provider_decides" | "webhook":
                return [order for order in orders if order.at_provider is not None]
        return orders

    # Actions of merchants.

    async def fund(self, minor: int) -> None:
        self.model.balance += minor
        wallet = self.merchant.new.id, Environment.PRODUCTION
        await wallets.fund(self.stage.services.db, *wallet, Money("NGN", minor), "by the machine")

    async def pay_out(self, is_manual: bool, amount: int) -> None:
        rail = MANUAL if is_manual else self.rail
        await self._ask(f"MACHINE-{next(self.stage.numbers)}", rail, amount)

    async def pay_again(self, order: Order, amount: int) -> None:
        reply = await self._ask(order.ref_trx, order.rail, amount)
        if not self.model.is_on_hold:
            notified = (reply.json["trx_id"], reply.json["status"])
            same("the first", notified, (self.trx_ids[order.ref_trx], order.status))

    async def _ask(self, ref_trx: str, rail: str, amount: int) -> Reply:
        beneficiary = {"bank_code": BANKS.get(rail), "account_number": "0123456789"}
        if rail == MANUAL:
            beneficiary = {"Bank Name": "GTBank", "Account Number": "0123456789"}
        request = {
            "payout_amount": amount / 100,
            "currency_code": "NGN",
            "ref_trx": ref_trx,
            "ipn_url": "https://shop.example/ipn",
            "withdraw_method_id": self.stage.methods[rail],
            "beneficiary": beneficiary,
        }
        reply = await self.merchant.post(INITIATE, request)
        expected = self.model.ask(ref_trx, rail, amount)
        answer = (STATUSES.get(expected, 422), expected) if expected else (200, None)
        same("the answer", (reply.status, reply.code), answer)
        if expected is None:
            self.trx_ids[ref_trx] = reply.json["trx_id"]
            same("the fee", round(reply.json["info"]["fee"] * 100), fee_of(amount))
        return reply

    async def verify(self, order: Order) -> None:
        reply = await self.merchant.get(VERIFY + self.trx_ids[order.ref_trx])
        if self.model.is_disabled:
            same("verify-payout", reply.code, "MERCHANT_SUSPENDED")
            return
        words = {"pending": "pending", "completed": "success"}
        same("verify-payout", reply.json["status"], words.get(order.status, "failed"))
        has_ended = order.status in ("failed", "canceled")
        same("whether it says why", "error_code" in reply.json, has_ended)

    # The following methods are the workers' actions and faults.

    async def work(self, order: Order, send: str = "accepted", is_asked: bool = True) -> None:
        await self._do(order, *await self._claim(order), send, is_asked)

    async def crash(self, order: Order, send: str, is_asked: bool, point: str) -> None:
        await self._do(order, *await self._claim(order), send, is_asked, point)

    async def freeze(self, order: Order) -> None:
        self.frozen[order.ref_trx] = await self._claim(order)

    async def resume(self, order: Order, send: str, is_asked: bool) -> None:
        job, claim = self.frozen.pop(order.ref_trx)
        await self._do(order, job, claim, send, is_asked)

    async def rail_is_down(self, order: Order, amount: int) -> None:
        """Marks the rail as down while a merchant requests a payout and a worker runs."""
        self.model.is_down = self._health.is_down = True
        await self.pay_out(is_manual=False, amount=amount)
        await self.work(order)
        self.model.is_down = False
        self._health.reset()

    async def work_on_all(self) -> None:
        """Runs all jobs, as if a long time without faults had passed."""
        db = self.stage.services.db
        await db.execute(
            """
            UPDATE job SET due_at = now(), leased_until = now()
             WHERE kind = 'transfer' AND merchant_id = $1""",
            self.merchant.new.id,
        )
        claimed = await claims.claim(db, {"transfer": 100})
        await asyncio.gather(*(self.stage.runner._do(job) for job in claimed))
        for order in self.model.orders.values():
            if order.is_worked_on:
                self.model.work(order, "accepted", True, self.model.claim(order))

    async def _claim(self, order: Order) -> tuple[Job, int]:
        """Makes this payout's job due before all other jobs, and claims the job."""
        db = self.stage.services.db
        await db.execute(
            """
            UPDATE job SET due_at = '2000-01-01', leased_until = now()
             WHERE merchant_id = $1 AND kind = 'transfer' AND subject = $2""",
            *(self.merchant.new.id, self.trx_ids[order.ref_trx]),
        )
        [job] = await claims.claim(db, {"transfer": 1})
        assert job.subject == self.trx_ids[order.ref_trx]
        return job, self.model.claim(order)

    async def _do(
        self,
        order: Order,
        job: Job,
        claim: int,
        send: str,
        is_asked: bool,
        dies_at: str | None = None,
    ) -> None:
        fault, _, _ = SENDS[send]
        planned = [] if fault is None else [{"call": "transfer", **fault}]
        planned += [] if is_asked else [{"call": "transfer_status", "fault": "5xx_before"}]
        faults = f"{self.rail}/faults"
        if planned:
            await self.stage.simulator.control(faults, {"next": planned})
        self.model.dies_at = dies_at
        with contextlib.suppress(Killed):
            self.model.work(order, send, is_asked, claim)
        self.model.dies_at = None
        with dying_at(dies_at), contextlib.suppress(Killed):
            crash.point("after_claim")
            await self.stage.runner._do(job)
        if planned:
            await self.stage.simulator.control(faults, {"next": []})
        if not self.model.is_down:
            self._health.reset()  # Close the circuit breaker, which repeated failures would open.

    # Actions of providers.

    async def provider_decides(self, order: Order, word: str, then: str) -> None:
        """Sets the transfer's status, even to an invalid one. `on` means the usual next status."""
        if word == "on":
            word = {"processing": "success", "success": "reversed"}.get(order.said[-1], "failed")
        if word != order.at_provider:
            path = f"{self.rail}/transfers/{self.trx_ids[order.ref_trx]}/settle"
            await self.stage.simulator.control(path, {"status": word, "insist": True})
            self.model.provider_says(order, word)
        if then in ("webhook", "both", "both, badly"):
            await self.webhook(order, said=0, is_forged=False)
        if then in ("work", "both", "both, badly") and order.is_worked_on:
            await self.work(order, is_asked=then != "both, badly")

    async def webhook(self, order: Order, said: int, is_forged: bool) -> None:
        """Sends a webhook about the current or an earlier status, possibly out of order."""
        words = [word for word in reversed(order.said) if word != "processing"]
        if not words or self.rail == "b":
            return
        word = words[said % len(words)]
        reply = await self._send_webhook(order, word, is_forged)
        same("the webhook's answer", reply.status, 401 if is_forged else 200)
        if not is_forged:
            # Change the webhooks' times, so that they count as recent even in a long sequence.
            await self._date_webhooks(order, "1 hour")
            self.model.hook(order, word)

    async def _date_webhooks(self, order: Order, from_now: str) -> None:
        await self.stage.services.db.execute(
            """
            UPDATE webhook SET last_received_at = now() + $3::text::interval
             WHERE merchant_id = $1 AND reference = $2""",
            *(self.merchant.new.id, self.trx_ids[order.ref_trx], from_now),
        )

    async def _send_webhook(self, order: Order, word: str, is_forged: bool) -> Reply:
        data: dict[str, Any] = {
            "reference": self.trx_ids[order.ref_trx],
            "amount": order.amount / 100,
            "currency": "NGN",
            "status": word,
        }
        event = f"transfer.{word}"
        if self.rail == "c":
            words = {"success": "SUCCESSFUL", "failed": "FAILED", "reversed": "REVERSED"}
            event, data["status"] = "transfer.completed", words[word]
        document, forged = {"event": event, "data": data}, {"secret": "guess"} if is_forged else {}
        return await webhooks.send(self.stage.site, f"provider{self.rail}", document, **forged)

    # Actions of operators.

    async def decide(self, order: Order, status: str) -> None:
        db, trx_id = self.stage.services.db, self.trx_ids[order.ref_trx]
        is_decided = self.model.decide(order, status)
        try:
            if status == "completed":
                await decisions.complete(db, trx_id, None)
            elif ("no_answer", order.ref_trx) in self.model.cases and order.is_begun:
                raise Refusal  # Other tests cover these decisions.
            else:
                await decisions.reject(db, self.stage.services.rails, trx_id, "By the machine.")
        except Refusal:
            same("whether an administrator decides", False, is_decided)
        else:
            same("whether an administrator decides", True, is_decided)

    async def merchant_is(self, what: str) -> None:
        """Sets the merchant to `disabled` or `payouts off`, or enables it again."""
        is_disabled, has_payouts_off = what == "disabled", what == "payouts off"
        self.model.change_merchant(is_disabled=is_disabled, has_payouts_off=has_payouts_off)
        wanted = MerchantUpdate(
            status=MerchantStatus.DISABLED if is_disabled else MerchantStatus.APPROVED,
            payouts_enabled=not has_payouts_off,
        )
        services = self.stage.services
        await merchants.change(services.db, services.keyring, self.merchant.new.id, wanted)
        await services.directory._refresh(0)

    async def requeue(self, order: Order) -> None:
        is_open = order.status == "pending" and order.rail != MANUAL
        try:
            await decisions.requeue(self.stage.services.db, self.trx_ids[order.ref_trx])
        except Refusal:
            same("whether it is requeued", False, is_open)
        else:
            same("whether it is requeued", True, is_open)
            order.number += 1

    async def a_day_passes(self, order: Order) -> None:
        order.is_old = True
        order.recent_webhooks.clear()
        await self._date_webhooks(order, "-1 day")
        await self.stage.services.db.execute(
            """
            UPDATE payout SET created_at = created_at - interval '25 hours',
                              began_at = began_at - interval '25 hours'
             WHERE merchant_id = $1 AND trx_id = $2""",
            *(self.merchant.new.id, self.trx_ids[order.ref_trx]),
        )

    # The following methods compare the model with Manilla.

    async def _compare(self) -> None:
        seen, model = await self.stage.books.seen(), self.model
        same("the wallet", seen["balance"], model.balance)
        payouts = {
            self.trx_ids[ref_trx]: [order.status, order.notified, order.is_worked_on]
            for ref_trx, order in model.orders.items()
        }
        same("payouts", seen["payouts"] or {}, payouts)
        cases = sorted([kind, self.trx_ids[ref_trx]] for kind, ref_trx in model.cases)
        same("cases", sorted(seen["cases"] or []), cases)
        self._steps += 1
        if self._steps % self._checks_every == 0:
            same("broken invariants", await self.stage.books.broken(), [])
        await self._compare_provider()

    async def _compare_provider(self) -> None:
        """Checks that the provider has received each transfer only once."""
        listed = (await self.stage.simulator.read(f"{self.rail}/transfers?limit=1000"))["transfers"]
        seen = {
            transfer["reference"]: (
                transfer["status"],
                round(transfer["amount"] * 100),
                transfer["duplicates"],
            )
            for transfer in listed
        }
        expected = {
            self.trx_ids[order.ref_trx]: (order.at_provider, order.amount, 0)
            for order in self.model.orders.values()
            if order.at_provider is not None
        }
        same("transfers", seen, expected)


def same(what: str, seen: Any, expected: Any) -> None:
    if seen == expected:
        return
    if isinstance(seen, dict):  # shows only the differences
        keys = [key for key in {**seen, **expected} if seen.get(key) != expected.get(key)]
        seen = {key: seen.get(key) for key in keys}
        expected = {key: expected.get(key) for key in keys}
    raise AssertionError(f"{what}: the product has {seen}, the model expects {expected}")


@contextlib.contextmanager
def dying_at(last: str | None) -> Iterator[None]:
    """Simulates the process being killed at the named crash point."""
    point = crash.point

    def die(name: str) -> None:
        if name == last:
            raise Killed(name)

    crash.point = die
    try:
        yield
    finally:
        crash.point = point
