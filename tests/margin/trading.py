"""What tests of the margin do: payments and payouts at providers that take fees, and the totals."""

from datetime import date
from typing import Any

import msgspec

from manilla.kit.clock import last_days
from manilla.ledger import invariants
from manilla.margin import figures, totals
from manilla.margin.figures import MarginFilter, MarginGroup, MarginRow
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.payment import Charge
from manilla.proofs import chain
from tests.payments.shop import Shop, Started
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.invariants import ALL

WAY = "providera-ngn"


class Trading:
    def __init__(self, shop: Shop, payer: PayoutMerchant) -> None:
        self.shop, self.payer = shop, payer
        self.services, self.db = shop.services, shop.services.db

    @property
    def merchant_id(self) -> int:
        return self.shop.merchant.new.id

    async def charge(self, percent: str, bearer: CommissionBearer) -> None:
        await self.shop.set_commission(percent, bearer)

    async def pay(self, amount: float = 1000) -> tuple[Started, Charge]:
        started = await self.shop.start(payment_amount=amount)
        charge = await self.shop.choose(started, WAY)
        await self.shop.pay(charge)
        await self.shop.until(started, "success")
        return started, charge

    async def pay_out(self, amount: float = 1000) -> str:
        trx_id = await self.payer.pay_out(payout_amount=amount)
        await self.payer.check_until(trx_id, "completed")
        return trx_id

    async def count(self) -> None:
        """Adds all postings to the totals, as the worker does every minute."""
        await chain.extend(self.db)
        await totals.add_final_postings(self.db)

    def filter(self, **changed: Any) -> MarginFilter:
        days = last_days(2)
        wanted = MarginFilter(since=days[0], until=days[-1], merchant_id=self.merchant_id)
        return msgspec.structs.replace(wanted, **changed)

    async def rows(self, by: MarginGroup, **changed: Any) -> list[MarginRow]:
        await self.count()
        return await figures.rows(self.db, self.filter(**changed), by)

    async def total(self, **changed: Any) -> tuple[int, int, int]:
        """Returns what was earned, paid and passed on, in minor units."""
        rows = await self.rows(MarginGroup.DETAIL, **changed)
        sums = figures.total("NGN", rows)
        return sums.earned_minor, sums.paid_minor, sums.passed_minor

    async def in_ledger(self) -> tuple[int, int]:
        """Returns what the ledger's accounts say was earned and paid."""
        record = await self.db.record(
            """
            SELECT coalesce(sum(amount_minor) FILTER (
                       WHERE account IN ('commission', 'payout_fee')), 0)::bigint AS earned,
                   coalesce(-sum(amount_minor) FILTER (
                       WHERE account LIKE 'provider_fee:%'), 0)::bigint AS paid
              FROM entry WHERE merchant_id = $1 AND environment = 'production'""",
            self.merchant_id,
        )
        return record["earned"], record["paid"]

    async def records(self) -> list[Any]:
        """Returns the merchant's transactions and postings, and all plans."""
        return [
            await self.db.records(f"SELECT t::text FROM {table} AS t WHERE {condition} ORDER BY 1")
            for table in ("payment", "payout", "posting", "entry", "price_version", "merchant_plan")
            for condition in (f"merchant_id IN (0, {self.merchant_id})",)
        ]

    async def broken_rules(self) -> list[tuple[str, list[Any]]]:
        found = await invariants.check(self.db, ALL)
        return [(each.name, each.examples) for each in found if each.count]


def today() -> date:
    return last_days(1)[0]
