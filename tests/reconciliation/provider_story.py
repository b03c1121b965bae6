"""Payments, payouts and refunds through the simulator, and the provider statement with them."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from manilla.cases import cases
from manilla.cases.cases import Case
from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.providers.checks.check import CheckSession
from manilla.providers.kinds import KINDS
from manilla.providers.port import (
    Adapter,
    Answer,
    Done,
    StatementLine,
    StatementPage,
    TransferStatus,
)
from manilla.reconciliation import days, importing, unmatched
from manilla.reconciliation.days import ReconciledDay
from manilla.reconciliation.lines import day_of
from manilla.reconciliation.unmatched import Unmatched
from manilla.refunds import decisions, initiate
from manilla.refunds.refund import RefundStatus
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.kinds import TestedKind

ONE_DAY = timedelta(days=1)
Change = Callable[[list[StatementLine]], list[StatementLine]]


def new_amount() -> Money:
    """Returns an amount that no other transaction has, so that no test matches by amount alone."""
    return Money("NGN", random.randrange(10_001, 199_999))


class Altered:
    """An adapter that returns an incorrect statement."""

    def __init__(self, adapter: Adapter, change: Change) -> None:
        self._adapter = adapter
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    async def statement(self, *period: Any) -> Answer[StatementPage]:
        answer = await self._adapter.statement(*period)
        if not isinstance(answer, Done):
            return answer
        return Done(StatementPage(self._change(answer.value.lines), answer.value.next))


class ProviderStory:
    def __init__(self, kind: TestedKind, shop: Shop, payer: PayoutMerchant) -> None:
        self.kind = kind
        self.shop = shop
        self.payer = payer
        self.db: Database = shop.services.db

    @property
    def adapter(self) -> Adapter:
        found = self.shop.services.rails.adapter(self.kind.provider)
        assert found is not None
        return found

    async def send_check(self) -> None:
        """Sends a transfer in the same way as `manilla provider check`."""
        samples = KINDS[self.kind.provider].samples
        assert samples is not None
        session = CheckSession(lambda: self.adapter, samples, "https://shop.example", is_live=True)
        good = samples.good
        resolved = await self.adapter.resolve(good.bank_code, good.account_number)
        assert isinstance(resolved, Done)
        session.resolved = resolved.value
        order = session.transfer_order(good)
        assert isinstance(await self.adapter.send(order), Done)

        async def is_delivered() -> bool:
            state = await self.adapter.transfer_state(order.reference)
            return isinstance(state, Done) and state.value.status is TransferStatus.DELIVERED

        await self.shop.simulator.until(is_delivered)

    async def pay_in(self) -> tuple[str, Money]:
        amount = new_amount()
        started = await self.shop.start(payment_amount=float(str(amount.amount)))
        charge = await self.shop.choose(started, self.kind.checkout_method)
        await self.shop.pay(charge)
        await self.shop.until(started, "success")
        return started.trx_id, amount

    async def pay_out(self, amount: Money | None = None) -> tuple[str, Money]:
        amount = amount or new_amount()
        payable = float(str(amount.amount))
        trx_id = await self.payer.pay_out(self.kind.rail, payout_amount=payable)
        await self.payer.check_until(trx_id, "completed")
        return trx_id, amount

    async def refund(self, payment: str) -> str:
        refund = await initiate.start(self.db, payment, None, "Returned goods")

        async def is_completed() -> bool:
            await self.shop.simulator.run_job_now("refund", refund.trx_id)
            now = await decisions.find(self.db, refund.trx_id)
            return now.status is RefundStatus.COMPLETED

        await self.shop.simulator.until(is_completed)
        return refund.trx_id

    async def imports(self, change: Change = list) -> None:
        """Imports the provider's statement as the worker does, two days later."""
        rails = self.shop.services.rails
        kinds = rails.credentials(self.kind.provider).kind.capabilities.statements
        altered: Any = Altered(self.adapter, change)
        today = day_of(datetime.now(UTC))
        await importing.import_from_provider(
            self.db, altered, kinds, today - ONE_DAY, today + ONE_DAY
        )
        await self.report_later()

    async def report_later(self) -> None:
        async with self.db.transaction() as connection:
            later = datetime.now(UTC) + 2 * ONE_DAY
            await unmatched.report(connection, self.kind.provider, later)

    async def findings(self, *trx_ids: str) -> list[tuple[str, int | None, int | None]]:
        """Returns these transactions' unmatched movements, and lines without a transaction."""
        return [
            (each.finding, each.ledger_minor, each.statement_minor)
            for each in await self._unmatched()
            if each.trx_id is None or each.trx_id in trx_ids
        ]

    async def _unmatched(self) -> list[Unmatched]:
        return await unmatched.find_unmatched(self.db, self.kind.provider)

    async def cases(self, *trx_ids: str) -> list[Case]:
        """Returns the cases about these transactions, and about lines without a transaction."""
        found = await cases.cases(self.db)
        ours = [case for case in found if case.reference.startswith(f"{self.kind.provider}:")]
        return [case for case in ours if case.trx_id is None or case.trx_id in trx_ids]

    async def matched_by(self, trx_id: str) -> set[str]:
        records = await self.db.records(
            "SELECT matched_by FROM statement_line WHERE provider = $1 AND trx_id = $2",
            *(self.kind.provider, trx_id),
        )
        return {record["matched_by"] for record in records}

    async def today(self) -> ReconciledDay:
        today = day_of(datetime.now(UTC))
        found = await days.find(self.db, self.kind.provider, "NGN", today)
        assert found is not None
        return found
