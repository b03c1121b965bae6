"""Runs each action on the refund model and on Manilla, and compares the results."""

import contextlib
from typing import Any

from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job, claims
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.providers.port import Direction
from manilla.refunds import decisions, initiate
from tests.payments import webhooks
from tests.payments.shop import Shop, Started
from tests.payouts.model import Killed
from tests.payouts.model_machine import Stage, dying_at, same
from tests.refunds.model import PAID, SENDS, RefundInModel, RefundModel
from tests.support.client import Merchant

METHODS = {"a": "providera-ngn", "b": "providerb-ngn", "c": "providerc-ngn"}
SEEN = """
    SELECT trx_id, status, by_operator,
           EXISTS (SELECT FROM job j
                    WHERE j.merchant_id = r.merchant_id AND j.kind = 'refund'
                      AND j.subject = r.trx_id) AS has_job
      FROM refund r WHERE merchant_id = $1"""


class RefundMachine:
    """One run with the model and a new merchant, whose large payment is refunded in parts."""

    def __init__(
        self, stage: Stage, shop: Shop, started: Started, rail: str, checks_every: int
    ) -> None:
        self.stage = stage
        # the number of steps between two checks of the invariants
        self._checks_every = checks_every
        self._steps = 0
        self.shop = shop
        self.started = started
        self.rail = rail
        self.model = RefundModel(rail)
        self.stalled: dict[str, tuple[Job, int]] = {}

    @classmethod
    async def start(cls, stage: Stage, rail: str, *, checks_every: int = 1) -> "RefundMachine":
        services = stage.services
        new = await merchants.create(
            services.db,
            services.keyring,
            name="Ada Stores",
            email="ada@example.com",
            status=MerchantStatus.APPROVED,
        )
        await services.db.execute("UPDATE job SET due_at = 'infinity' WHERE kind = 'refund'")
        await stage.simulator.control("reset", {})
        await stage.books.of(new.id)
        merchant = Merchant(stage.site.from_new_ip(), new, Environment.PRODUCTION)
        shop = Shop(services, stage.simulator, merchant)
        started = await shop.start(payment_amount=PAID / 100)
        charge = await shop.choose(started, METHODS[rail])
        await shop.pay(charge)
        await shop.until(started, "success")
        # Provider C returns the final status in its response.
        pending = "success" if rail == "c" else "pending"
        quiet = {"refunds": pending, "webhooks": {"mode": "lost"}}
        await stage.simulator.control(f"{rail}/faults", quiet)
        return cls(stage, shop, started, rail, checks_every)

    async def happens(self, name: str, arguments: dict[str, Any]) -> None:
        """Runs one step, and checks that the model and Manilla have the same state afterwards."""
        rest = dict(arguments)
        if "which" not in rest:
            await getattr(self, name)(**rest)
        elif eligible := self._eligible(name):
            await getattr(self, name)(eligible[rest.pop("which") % len(eligible)], **rest)
        else:
            await self.refund(amount=1000)
        self.stage.services.rails.health.rail(f"provider{self.rail}", Direction.PAY_IN).reset()
        await self._compare()

    def _eligible(self, name: str) -> list[RefundInModel]:
        refunds = list(reversed(self.model.refunds.values()))
        match name:
            case "work" | "crash" | "stall":
                return [each for each in refunds if each.is_worked_on]
            case "resume":
                return [each for each in refunds if each.trx_id in self.stalled]
            case "provider_decides":
                return [each for each in refunds if each.at_provider == "processing"]
            case "webhook":
                return [each for each in refunds if each.at_provider in ("success", "failed")]
        return refunds

    async def refund(self, amount: int) -> None:
        db = self.stage.services.db
        try:
            text = f"{amount / 100:.2f}"
            refund = await initiate.start(db, self.started.trx_id, text, "Returned goods")
        except Refusal as refusal:
            same(f"whether it is refunded ({refusal.text})", False, not self.model.is_on_hold)
        else:
            same("whether it is refunded", True, not self.model.is_on_hold)
            self.model.start(refund.trx_id, amount)

    async def work(
        self, refund: RefundInModel, send: str = "accepted", is_asked: bool = True
    ) -> None:
        await self._do(refund, *await self._claim(refund), send, is_asked)

    async def crash(self, refund: RefundInModel, send: str, is_asked: bool, point: str) -> None:
        await self._do(refund, *await self._claim(refund), send, is_asked, point)

    async def stall(self, refund: RefundInModel) -> None:
        self.stalled[refund.trx_id] = await self._claim(refund)

    async def resume(self, refund: RefundInModel, send: str, is_asked: bool) -> None:
        await self._do(refund, *self.stalled.pop(refund.trx_id), send, is_asked)

    async def work_on_all(self) -> None:
        for refund in self.model.refunds.values():
            if refund.is_worked_on:
                await self.work(refund)

    async def _claim(self, refund: RefundInModel) -> tuple[Job, int]:
        """Makes this refund's job due before all other jobs, and claims the job."""
        db = self.stage.services.db
        await db.execute(
            """
            UPDATE job SET due_at = '2000-01-01', leased_until = now()
             WHERE kind = 'refund' AND subject = $1""",
            refund.trx_id,
        )
        [job] = await claims.claim(db, {"refund": 1})
        assert job.subject == refund.trx_id
        return job, self.model.claim(refund)

    async def _do(
        self,
        refund: RefundInModel,
        job: Job,
        claim: int,
        send: str,
        is_asked: bool,
        dies_at: str | None = None,
    ) -> None:
        fault = SENDS[send][0]
        planned = [] if fault is None else [{"call": "refund", **fault}]
        planned += [] if is_asked else [{"call": "refund_status", "fault": "5xx_before"}]
        await self.stage.simulator.control(f"{self.rail}/faults", {"next": planned})
        self.model.dies_at = dies_at
        with contextlib.suppress(Killed):
            self.model.work(refund, send, is_asked, claim)
        self.model.dies_at = None
        with dying_at(dies_at), contextlib.suppress(Killed):
            await self.stage.runner._do(job)
        await self.stage.simulator.control(f"{self.rail}/faults", {"next": []})

    async def provider_decides(self, refund: RefundInModel, word: str, is_notified: bool) -> None:
        path = f"{self.rail}/refunds/{refund.trx_id}/settle"
        await self.stage.simulator.control(path, {"status": word})
        refund.at_provider = word
        if is_notified:
            await self.webhook(refund, is_forged=False)

    async def webhook(self, refund: RefundInModel, is_forged: bool) -> None:
        if self.rail != "a":
            return
        data = {
            "reference": refund.trx_id,
            "amount": refund.amount / 100,
            "currency": "NGN",
            "status": refund.at_provider,
        }
        document = {"event": f"refund.{refund.at_provider}", "data": data}
        forged = {"secret": "guess"} if is_forged else {}
        reply = await webhooks.send(self.stage.site, "providera", document, **forged)
        same("the webhook's answer", reply.status, 401 if is_forged else 200)
        if not is_forged:
            self.model.webhook(refund)

    async def decide(self, refund: RefundInModel, is_paid: bool, is_sure: bool) -> None:
        is_decided = self.model.decide(refund, is_paid=is_paid, is_sure=is_sure)
        services, trx_id, text = self.stage.services, refund.trx_id, "By the machine."
        here = services.db, services.rails
        try:
            if is_paid:
                await decisions.confirm(*here, trx_id, text, already_paid=is_sure)
            else:
                await decisions.reject(*here, trx_id, text, is_checked=is_sure)
        except Refusal:
            same("whether an administrator decides", False, is_decided)
        else:
            same("whether an administrator decides", True, is_decided)

    async def merchant_is(self, is_on_hold: bool) -> None:
        self.model.change_merchant(is_on_hold=is_on_hold)
        status = MerchantStatus.DISABLED if is_on_hold else MerchantStatus.APPROVED
        await self.shop.change(MerchantUpdate(status=status))

    async def days_pass(self, refund: RefundInModel) -> None:
        refund.is_old = refund.is_old or refund.is_sent
        refund.is_quiet = True
        await self.stage.services.db.execute(
            """
            UPDATE refund SET created_at = created_at - interval '4 days',
                              sent_at = sent_at - interval '4 days',
                              first_sent_at = first_sent_at - interval '4 days'
             WHERE merchant_id = $1 AND trx_id = $2""",
            *(self.shop.merchant.new.id, refund.trx_id),
        )

    async def _compare(self) -> None:
        db, model = self.stage.services.db, self.model
        same("the wallet", await self.shop.balance(), model.balance)
        seen = {
            each["trx_id"]: (each["status"], each["by_operator"], each["has_job"])
            for each in await db.records(SEEN, self.shop.merchant.new.id)
        }
        expected = {
            each.trx_id: (each.status, each.is_left, each.is_worked_on)
            for each in model.refunds.values()
        }
        same("refunds", seen, expected)
        same("cases", sorted(await self.shop.cases()), sorted(model.cases))
        self._steps += 1
        if self._steps % self._checks_every == 0:
            same("broken invariants", await self.stage.books.broken(), [])
        listed = (await self.stage.simulator.read(f"{self.rail}/refunds?limit=1000"))["refunds"]
        sent = {each["reference"]: round(each["amount"] * 100) for each in listed}
        known = {each.trx_id: each.amount for each in model.refunds.values() if each.at_provider}
        same("refunds at the provider", sent, known)
