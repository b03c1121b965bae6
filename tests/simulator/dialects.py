"""The calls of a platform in each real provider's dialect, for the tests that all of them share."""

import hashlib
import hmac
from decimal import Decimal
from typing import Any

from tests.simulator.merchant_platform import Platform, Received, Reply

ACCOUNT = "0123456789"


class Paystack:
    key = "paystack"
    bank = "058"
    accepted, processing, waiting = "pending", "pending", "otp"
    success, failed, reversed = "success", "failed", "reversed"
    charge_paid, charge_failed = "success", "failed"
    approval_switch = "transfers_need_otp"
    insufficient = (400, "Your balance is not enough to fulfil this request")
    duplicate = (
        400,
        "Please provide a unique reference. Reference already exists on a transfer",
    )
    unauthorized = (401, "No Authorization Header was found")
    unresolvable = (422, "Could not resolve account name. Check parameters or try again.")
    balance_path = "/balance"
    return_query = "trxref=TXN1-1&reference=TXN1-1"

    async def call(self, platform: Platform, method: str, path: str, body: Any = None) -> Reply:
        headers = {"Authorization": "Bearer sk_live_simulated"}
        return await platform.send(method, f"/paystack{path}", body, headers)

    def refusal(self, reply: Reply) -> tuple[int, str]:
        assert reply.json["status"] is False
        return reply.status, reply.json["message"]

    async def recipient(self, platform: Platform, account: str = ACCOUNT) -> Reply:
        body = {"type": "nuban", "name": "Ada Obi", "account_number": account, "bank_code": "058"}
        return await self.call(platform, "POST", "/transferrecipient", body)

    async def transfer(
        self, platform: Platform, reference: str, account: str = ACCOUNT, amount: str = "1000.00"
    ) -> Reply:
        created = await self.recipient(platform, account)
        if created.status != 201:
            return created
        body = {
            "source": "balance",
            "amount": int(Decimal(amount) * 100),
            "recipient": created.data["recipient_code"],
            "reference": reference,
            "reason": "Rent",
        }
        return await self.call(platform, "POST", "/transfer", body)

    def accepted_status(self, reply: Reply) -> str:
        return str(reply.data["status"])

    async def ask_transfer(self, platform: Platform, reference: str) -> Reply:
        return await self.call(platform, "GET", f"/transfer/verify/{reference}")

    async def transfer_status(self, platform: Platform, reference: str) -> str:
        return str((await self.ask_transfer(platform, reference)).data["status"])

    def is_unknown(self, reply: Reply) -> bool:
        return self.refusal(reply) == (404, "Transfer not found")

    async def open_hosted(self, platform: Platform, reference: str) -> str:
        body = {
            "email": "ada@example.com",
            "amount": 1000_00,
            "reference": reference,
            "callback_url": f"{platform.url}/back?order=7",
        }
        reply = await self.call(platform, "POST", "/transaction/initialize", body)
        return str(reply.data["authorization_url"])

    async def open_account(self, platform: Platform, reference: str) -> str:
        body = {"email": "ada@example.com", "amount": 1000_00, "reference": reference}
        reply = await self.call(platform, "POST", "/charge", {**body, "bank_transfer": {}})
        return str(reply.data["account_number"])

    async def charge_status(self, platform: Platform, reference: str) -> str:
        reply = await self.call(platform, "GET", f"/transaction/verify/{reference}")
        return str(reply.data["status"])

    async def refund(self, platform: Platform, charge: str, reference: str) -> Reply:
        body = {"transaction": charge, "amount": 400_50}
        return await self.call(platform, "POST", "/refund", body)

    def is_signed(self, received: Received) -> bool:
        expected = hmac.new(b"sk_live_simulated", received.raw, hashlib.sha512).hexdigest()
        return received.headers.get("x-paystack-signature") == expected


Dialect = Paystack
DIALECTS: dict[str, Dialect] = {each.key: each for each in (Paystack(),)}
