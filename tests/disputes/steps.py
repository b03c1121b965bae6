"""What tests do with disputes: paid payments, reports of a provider, and the merchant's money."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from manilla.disputes import states, store
from manilla.disputes.dispute import Dispute
from manilla.disputes.service import DisputeService
from manilla.disputes.states import Reported
from manilla.kit.money import Money
from manilla.ledger import invariants
from manilla.ledger.scope import Tenant
from manilla.merchants import wallets
from manilla.payments.payment import Charge
from manilla.platform.settings import PlatformSettings
from manilla.providers.port import DisputeState, ReportedDisputeStatus
from tests.payments.shop import Shop, Started
from tests.support.invariants import ALL

NEEDS_RESPONSE = ReportedDisputeStatus.NEEDS_RESPONSE
SUBMITTED = ReportedDisputeStatus.SUBMITTED
WON, LOST = ReportedDisputeStatus.WON, ReportedDisputeStatus.LOST
ACCEPTED = ReportedDisputeStatus.ACCEPTED
LATER = datetime(2099, 1, 1, tzinfo=UTC)
PROVIDER = "providera"


def naira(text: str) -> Money:
    return Money.of(text, "NGN")


def money(*, wallet: int = 0, owed: int = 0, withheld: int = 0, taken: int = 0) -> dict[str, int]:
    """Returns what `Disputes.money` should return, in naira."""
    return {"wallet": wallet, "owed": owed, "withheld": withheld, "taken": taken}


class Paid(msgspec.Struct, frozen=True):
    started: Started
    charge: Charge

    def reported(
        self,
        status: ReportedDisputeStatus,
        amount: str = "1000",
        currency: str = "NGN",
        **changed: Any,
    ) -> DisputeState:
        """Returns a dispute of the payment as its provider reports it."""
        values: dict[str, Any] = {
            "provider_reference": f"D-{self.charge.reference}",
            "status": status,
            "charge_reference": self.charge.reference,
            "amount": Money.of(amount, currency),
            "stage": "new",
            "category": "fraud",
            "reason": "The customer does not know the payment.",
            "respond_by": LATER,
        }
        return DisputeState(**(values | changed))


class Disputes:
    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.db = shop.services.db
        self.settings = PlatformSettings()

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.shop.merchant.new.id, self.shop.merchant.environment)

    @property
    def service(self) -> DisputeService:
        return self.shop.services.disputes

    async def pay(self, amount: float = 1000) -> Paid:
        started = await self.shop.start(payment_amount=amount)
        charge = await self.shop.choose(started, "providera-ngn")
        await self.shop.pay(charge)
        await self.shop.until(started, "success")
        return Paid(started, charge)

    async def report(self, state: DisputeState, **how: Any) -> Reported:
        provider = how.pop("provider", PROVIDER)
        return await states.report(self.db, self.settings, provider, state, **how)

    async def open(self, paid: Paid, amount: str = "1000", **changed: Any) -> Dispute:
        return self.one(await self.report(paid.reported(NEEDS_RESPONSE, amount, **changed)))

    def one(self, reported: Reported) -> Dispute:
        assert reported.dispute is not None, reported.problem
        return reported.dispute

    async def now(self, dispute: Dispute) -> Dispute:
        return await store.by_id(self.db, dispute.trx_id)

    async def of(self, paid: Paid) -> list[Dispute]:
        return await store.disputes_of(self.db, paid.charge.merchant_id, paid.started.trx_id)

    def paid(self, started: Started, charge: Charge) -> Paid:
        return Paid(started, charge)

    async def empty_wallet(self) -> None:
        """Takes the whole balance, as a settlement would."""
        balance = Money("NGN", -await self.shop.balance())
        if balance.minor:
            await wallets.adjust(
                *(self.db, self.tenant.merchant_id, self.tenant.environment),
                *(balance, "a settlement"),
            )

    async def owed(self) -> int:
        minor: int = await self.db.value(
            "SELECT short_minor FROM wallet WHERE merchant_id = $1 AND environment = $2",
            *(self.tenant.merchant_id, self.tenant.environment),
        )
        return minor

    async def money(self) -> dict[str, int]:
        """Returns the merchant's money, in naira: wallet, debt, withheld, taken by providers."""
        taken: int = await self.db.value(
            """
            SELECT coalesce(sum(e.amount_minor), 0)::bigint FROM posting p
              JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
             WHERE p.merchant_id = $1 AND p.trx_id LIKE 'DSP%' AND e.account = $2""",
            *(self.tenant.merchant_id, f"clearing:{PROVIDER}"),
        )
        return {
            "wallet": await self.shop.balance() // 100,
            "owed": await self.owed() // 100,
            "withheld": await self.shop.account("withheld") // 100,
            "taken": taken // 100,
        }

    async def events(self, dispute: Dispute) -> list[str]:
        """Returns the types of the dispute's events, in order."""
        records = await self.db.records(
            "SELECT type FROM notification WHERE merchant_id = $1 AND trx_id = $2"
            " AND event = 'dispute' ORDER BY id",
            *(dispute.merchant_id, dispute.payment_trx_id),
        )
        return [record["type"].removeprefix("dispute.") for record in records]

    async def broken_rules(self) -> list[tuple[str, list[Any]]]:
        found = await invariants.check(self.db, ALL)
        return [(each.name, each.examples) for each in found if each.count]
