"""Payouts by the automatic method, in tests."""

from typing import Any

from manilla.payouts.routing import attempts
from manilla.payouts.routing.attempts import Attempt
from tests.client import Reply
from tests.payouts.payout_merchant import ACCOUNT, PayoutMerchant

AUTO = "auto_ngn"
GTBANK = "058"
REFUSED = {"call": "transfer", "fault": "refuse", "status": 403, "message": "Not enabled"}
UNFUNDED = {"call": "transfer", "fault": "refuse", "status": 402, "message": "Insufficient funds"}
BAD_ACCOUNT = {"call": "transfer", "fault": "refuse", "status": 400, "message": "Invalid account"}
NOT_PAID = ("failed", "reversed")


class RoutedPayouts:
    def __init__(self, payer: PayoutMerchant) -> None:
        self.payer = payer
        self.simulator = payer.simulator
        self.services = payer.services

    async def begin(self) -> "RoutedPayouts":
        for rail in "abc":
            await self.simulator.control(f"{rail}/faults", {"settle_seconds": 3600})
        return self

    async def ask(self, **changed: Any) -> Reply:
        who = {"bank_code": GTBANK, "account_number": ACCOUNT, **changed.pop("who", {})}
        return await self.payer.ask(AUTO, beneficiary=who, **changed)

    async def pay_out(self, **changed: Any) -> str:
        reply = await self.ask(**changed)
        assert reply.status == 200, reply.body
        trx_id: str = reply.json["trx_id"]
        return trx_id

    async def plan(self, rail: str, *faults: dict[str, Any]) -> None:
        await self.simulator.control(f"{rail}/faults", {"next": list(faults)})

    async def transfers(self, trx_id: str) -> dict[str, str]:
        """The status of the transfer at each rail that has it."""
        found = {}
        for rail in "abc":
            listed = await self.simulator.read(f"{rail}/transfers?reference={trx_id}")
            for transfer in listed["transfers"]:
                found[rail] = transfer["status"]
        return found

    async def attempts(self, trx_id: str) -> list[Attempt]:
        merchant_id = self.payer.merchant.new.id
        return await attempts.attempts(self.services.db, merchant_id, trx_id)

    async def rails(self, trx_id: str) -> list[str]:
        return [attempt.provider for attempt in await self.attempts(trx_id)]

    async def provider(self, trx_id: str) -> str | None:
        return (await self.payer.payout(trx_id)).provider
