"""Creates payouts with the automatic method."""

from typing import Any

from manilla.kit.jobs import Job, claims
from manilla.payouts import attempts
from manilla.payouts.attempts import Attempt
from manilla.providers.port import TransferOrder
from tests.payouts.payout_merchant import ACCOUNT, BANKS, PayoutMerchant
from tests.support.client import Reply
from tests.support.waiting import until

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

    async def claim(self, trx_id: str) -> Job:
        """Claims the payout's job as a worker, and ends another worker's lease."""
        db = self.services.db

        async def claimed() -> list[Job]:
            await db.execute(
                "UPDATE job SET due_at = '2000-01-01', leased_until = now()"
                " WHERE merchant_id = $1 AND kind = 'transfer' AND subject = $2",
                *(self.payer.merchant.new.id, trx_id),
            )
            return list(await claims.claim(db, {"transfer": 1}))

        # Repeat the claim, because a claim skips a job that is locked, for example by a webhook.
        [job] = await until(claimed)
        assert job.subject == trx_id
        return job

    async def send_directly(self, rail: str, trx_id: str) -> None:
        """Sends the transfer to the rail without Manilla's knowledge. The rail accepts it."""
        payout, provider = await self.payer.payout(trx_id), f"provider{rail}"
        adapter = self.services.rails.adapter(provider)
        assert adapter is not None
        order = TransferOrder(
            reference=trx_id,
            amount=payout.amount,
            bank_code=BANKS[rail] or "",
            account_number=payout.account_number,
            account_name=payout.account_name or "",
            narration="unknown to us",
            customer_email="ada@example.com",
            notification_url="http://127.0.0.1:1/",
        )
        await adapter.send(order)

    async def transfers(self, trx_id: str) -> dict[str, str]:
        """Returns the status of the transfer at each rail that has the transfer."""
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
