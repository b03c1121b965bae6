"""Real transactions of one merchant, with which an auditor's pack is tested."""

import msgspec

from manilla.kit.money import Money
from manilla.ledger import provider_funds
from manilla.ledger.provider_funds import SettlementKind
from manilla.proofs import chain
from manilla.providers import balances
from manilla.refunds import decisions, initiate
from manilla.refunds.refund import Refund, RefundStatus
from manilla.services import Services
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.client import Merchant
from tests.support.provider_simulator import ProviderSimulator

PROVIDER = "providera"


class LedgerStory:
    def __init__(
        self, services: Services, simulator: ProviderSimulator, merchant: Merchant
    ) -> None:
        self.db = services.db
        self.simulator = simulator
        self.merchant = merchant
        self.shop = Shop(services, simulator, merchant)
        self.payer = PayoutMerchant(services, simulator, merchant)

    def of(self, merchant: Merchant) -> "LedgerStory":
        """Returns the same story of another merchant."""
        site = merchant.site.from_new_ip()
        return LedgerStory(
            self.shop.services, self.simulator, msgspec.structs.replace(merchant, site=site)
        )

    async def happen(self) -> None:
        """A customer pays and gets a refund, a payout is delivered, and a payout fails.

        The chain has several links, and the provider reports a balance that covers all wallets.
        """
        trx_id = await self.take_payment()
        await chain.extend(self.db)
        await self._refund(trx_id)
        await chain.extend(self.db)
        await self.pay_out("completed")
        await self.pay_out("failed")
        await self.top_up("1000")
        await chain.extend(self.db)
        await self.report_balance()

    async def top_up(self, amount: str) -> None:
        """Adds our own money to the balance at the provider, for fees and for funded wallets."""
        money = Money.of(amount, "NGN")
        await provider_funds.settle(self.db, SettlementKind.TOP_UP, PROVIDER, money, "For fees")

    async def take_payment(self) -> str:
        started = await self.shop.start(payment_amount=5000)
        await self.shop.pay(await self.shop.choose(started, "providera-ngn"))
        await self.shop.until(started, "success")
        return started.trx_id

    async def pay_out(self, status: str) -> str:
        trx_id = await self.send()
        await self.payer.settle("a", trx_id, "success" if status == "completed" else status)
        await self.payer.until(trx_id, status)
        return trx_id

    async def send(self) -> str:
        """Sends a payout whose result the provider does not report yet."""
        await self.simulator.control("a/faults", {"settle_seconds": 3600})
        trx_id = await self.payer.pay_out("a")
        await self.simulator.run_jobs()
        return trx_id

    async def _refund(self, trx_id: str) -> None:
        await self.finish(await initiate.start(self.db, trx_id, "500", "Returned goods"))

    async def finish(self, refund: Refund) -> None:
        """Lets the provider pay a refund."""
        await self.simulator.control("a/faults", {"settle_seconds": 0})

        async def is_so() -> bool:
            found = await decisions.find(self.db, refund.trx_id)
            return found.status is RefundStatus.COMPLETED

        await self.simulator.until(is_so)

    async def report_balance(self, missing_minor: int = 0) -> None:
        """Saves the balance that the provider reports now."""
        ledger = await balances.in_ledger(self.db, PROVIDER, "NGN")
        reported = Money("NGN", ledger.minor - missing_minor)
        await balances.save(self.db, PROVIDER, reported, ledger)
