"""Random actions of customers, providers and administrators on one merchant's payments."""

import asyncio
import contextlib
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from manilla.cases.cases import CaseAction
from manilla.job_kinds import JobKind
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.jobs import claims
from manilla.merchants import merchants
from manilla.merchants.merchants import (
    CommissionBearer,
    MerchantStatus,
    MerchantUpdate,
    OverpaidRule,
    UnderpaidRule,
)
from manilla.payments.payment import Charge
from manilla.providers.port import Direction
from manilla.refunds import initiate
from manilla.resolutions import resolutions
from tests.payments import webhooks
from tests.payments.shop import Shop, Started
from tests.payouts.model import Killed
from tests.payouts.model_machine import Stage, dying_at
from tests.support.client import Merchant

METHODS = {
    "a": ("providera-ngn", "providera_ngn_va"),
    "b": ("providerb-ngn",),
    "c": ("providerc-ngn",),
}
POINTS = [
    "before_payment_commit",
    "after_payment_commit",
    "amid_payment_credit",
    "before_refund_commit",
]
# The shares of the requested amount that a customer pays.
SHARES = ["1", "1", "1", "0.4", "0.999", "1.001", "1.5"]
WHICH = range(4)

# Maps each action to its weight and its arguments.
ACTIONS: dict[str, tuple[int, dict[str, Any]]] = {
    "start": (4, {"amount": range(1_000, 500_001)}),
    "choose": (5, {"which": WHICH, "method": range(2)}),
    "pay": (6, {"which": WHICH, "share": SHARES}),
    "decline": (1, {"which": WHICH}),
    "webhook": (4, {"which": WHICH, "share": SHARES, "is_forged": [False] * 5 + [True]}),
    "crash": (2, {"point": POINTS}),
    "work": (5, {}),
    "work_on_all": (3, {}),
    "expire": (2, {"which": WHICH}),
    "cancel": (1, {"which": WHICH}),
    "rules": (2, {"overpaid": [*OverpaidRule], "underpaid": [*UnderpaidRule]}),
    "commission": (1, {"percent": ["0", "1.5"], "bearer": [*CommissionBearer]}),
    "resolve": (3, {"which": WHICH, "action": [*CaseAction]}),
    "refund": (2, {"which": WHICH, "share": ["0.3", "1"]}),
}
OF_PAYMENTS = ("choose", "expire", "cancel", "refund")
JOBS = [JobKind.CHARGE, JobKind.RETURN, JobKind.REFUND]


class PaymentMachine:
    """One run with a new merchant. Errors that Manilla reports are results too."""

    def __init__(self, stage: Stage, shop: Shop, rail: str) -> None:
        self.stage = stage
        self.shop = shop
        self.rail = rail
        self.started: list[Started] = []
        self.charges: list[Charge] = []
        self.results: list[str] = []

    @classmethod
    async def start_with(cls, stage: Stage, rail: str) -> "PaymentMachine":
        services = stage.services
        new = await merchants.create(
            services.db,
            services.keyring,
            name="Ada Stores",
            email="ada@example.com",
            status=MerchantStatus.APPROVED,
        )
        await services.db.execute("UPDATE job SET due_at = 'infinity'")
        await stage.simulator.control("reset", {})
        quiet = {"refunds": "success" if rail == "c" else "pending", "webhooks": {"mode": "lost"}}
        await stage.simulator.control(f"{rail}/faults", quiet)
        merchant = Merchant(stage.site.from_new_ip(), new, Environment.PRODUCTION)
        shop = Shop(services, stage.simulator, merchant)
        await shop.fund("100000")  # so that the merchant can bear the commission
        return cls(stage, shop, rail)

    async def happens(self, name: str, arguments: dict[str, Any]) -> None:
        rest = dict(arguments)
        if "which" in rest:
            if eligible := await self._eligible(name):
                rest["which"] = eligible[-1 - rest["which"] % len(eligible)]
            else:
                name, rest = "start", {"amount": 100_000}
        try:
            await getattr(self, name)(*rest.values())
        except Refusal as refusal:
            self.results.append(f"{name}: {refusal.code or refusal.text}")
        self.stage.services.rails.health.rail(f"provider{self.rail}", Direction.PAY_IN).reset()

    async def _eligible(self, name: str) -> Sequence[Any]:
        if name == "resolve":
            return await self._open_cases()
        return self.started if name in OF_PAYMENTS else self.charges

    # Actions of merchants and customers.

    async def start(self, amount: int) -> None:
        self.started.append(await self.shop.start(payment_amount=amount / 100))

    async def choose(self, started: Started, method: int) -> None:
        codes = METHODS[self.rail]
        charge = await self.shop.choose(started, codes[method % len(codes)])
        if charge.reference not in [each.reference for each in self.charges]:
            self.charges.append(charge)

    async def pay(self, charge: Charge, share: str) -> None:
        path = f"{self.rail}/charges/{charge.reference}/pay"
        amount = float(_share(charge, share))
        status = await self.stage.simulator.try_control(path, {"amount": amount, "insist": True})
        self.results.append(f"pay: {status}")

    async def decline(self, charge: Charge) -> None:
        path = f"{self.rail}/charges/{charge.reference}/pay"
        status = await self.stage.simulator.try_control(path, {"outcome": "failed"})
        self.results.append(f"decline: {status}")

    async def cancel(self, started: Started) -> None:
        await self.stage.services.checkout.cancel(started.trx_id)

    # Actions of providers and workers.

    async def webhook(self, charge: Charge, share: str, is_forged: bool) -> None:
        provider = f"provider{self.rail}"
        document = webhooks.paid(provider, charge.reference, f"{_share(charge, share)}")
        forged = {"secret": "guess"} if is_forged else {}
        reply = await webhooks.send(self.stage.site, provider, document, **forged)
        self.results.append(f"webhook: {reply.status}")

    async def crash(self, point: str) -> None:
        with dying_at(point), contextlib.suppress(Killed):
            await self.work()

    async def work(self) -> None:
        """Runs the merchant's jobs one after another."""
        for job in await self._claim():
            await self.stage.runner._do(job)

    async def work_on_all(self) -> None:
        """Runs the merchant's jobs at the same time, so that one statement saves their results."""
        await asyncio.gather(*(self.stage.runner._do(job) for job in await self._claim()))

    async def _claim(self) -> list[Any]:
        db, merchant_id = self.stage.services.db, self.shop.merchant.new.id
        await db.execute(
            """
            UPDATE job SET due_at = '2000-01-01', leased_until = now()
             WHERE merchant_id = $1 AND kind = ANY($2)""",
            *(merchant_id, JOBS),
        )
        found = await claims.claim(db, dict.fromkeys(JOBS, 50))
        return sorted(found, key=lambda job: (job.kind, job.subject))

    async def expire(self, started: Started) -> None:
        db = self.stage.services.db
        await db.execute(
            "UPDATE job SET due_at = '2000-01-01' WHERE kind = $1 AND subject = $2",
            *(JobKind.EXPIRE_PAYMENT, started.trx_id),
        )
        for job in await claims.claim(db, {JobKind.EXPIRE_PAYMENT: 1}):
            await self.stage.runner._do(job)

    # Actions of administrators.

    async def rules(self, overpaid: str, underpaid: str) -> None:
        wanted = MerchantUpdate(overpaid=OverpaidRule(overpaid), underpaid=UnderpaidRule(underpaid))
        await self.shop.change(wanted)

    async def commission(self, percent: str, bearer: str) -> None:
        await self.shop.set_commission(percent, CommissionBearer(bearer))

    async def resolve(self, case_id: int, action: str) -> None:
        await resolutions.resolve(
            self.stage.services.db,
            case_id,
            "By the machine.",
            CaseAction(action),
            merchant_id=self.shop.merchant.new.id,
        )

    async def _open_cases(self) -> list[int]:
        records = await self.stage.services.db.records(
            "SELECT id FROM operator_case WHERE merchant_id = $1 AND status = 'open'"
            " ORDER BY kind, reference",
            self.shop.merchant.new.id,
        )
        return [record["id"] for record in records]

    async def refund(self, started: Started, share: str) -> None:
        payment = await self.shop.payment(started)
        amount = f"{payment.amount.amount * Decimal(share):.2f}"
        await initiate.start(self.stage.services.db, started.trx_id, amount, "Returned goods")


def _share(charge: Charge, share: str) -> Decimal:
    return max(round(charge.amount.amount * Decimal(share), 2), Decimal("0.01"))
