"""The calls that a platform makes to each provider's simulated API, for tests of all providers."""

import base64
import hashlib
import hmac
from decimal import Decimal
from typing import Any, Protocol

from manilla_simulator.names import holder_of

from tests.simulator.merchant_platform import Platform, Received, Reply

ACCOUNT = "0123456789"


class Dialect(Protocol):
    """A provider's calls, and the provider's statuses for transfers and charges."""

    key: str
    accepted: str
    processing: str
    waiting: str
    success: str
    failed: str
    reversed: str
    charge_paid: str
    charge_failed: str
    # The name of the setting that makes transfers wait for approval, or an empty string.
    approval_switch: str
    insufficient: tuple[int, str]
    duplicate: tuple[int, str]
    unauthorized: tuple[int, str]
    unresolvable: tuple[int, str]
    balance_path: str
    return_query: str

    async def call(self, platform: Platform, method: str, path: str, body: Any = None) -> Reply: ...

    def refusal(self, reply: Reply) -> tuple[int, str]: ...

    async def transfer(
        self, platform: Platform, reference: str, account: str = ACCOUNT, amount: str = "1000.00"
    ) -> Reply: ...

    def accepted_status(self, reply: Reply) -> str: ...

    async def ask_transfer(self, platform: Platform, reference: str) -> Reply: ...

    async def transfer_status(self, platform: Platform, reference: str) -> str: ...

    def is_unknown(self, reply: Reply) -> bool: ...

    async def open_hosted(self, platform: Platform, reference: str) -> str: ...

    async def open_account(self, platform: Platform, reference: str) -> str: ...

    async def charge_status(self, platform: Platform, reference: str) -> str: ...

    async def refund(self, platform: Platform, charge: str, reference: str) -> Reply: ...

    def is_signed(self, received: Received) -> bool: ...


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
    return_query = "trxref=TXN0001-1&reference=TXN0001-1"

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


class Kora:
    key = "kora"
    accepted, processing, waiting = "processing", "processing", ""
    success, failed, reversed = "success", "failed", "failed"
    charge_paid, charge_failed = "success", "failed"
    approval_switch = ""
    insufficient = (400, "Insufficient funds in disbursement wallet")
    duplicate = (409, "Duplicate Transaction Reference. Please use a unique reference")
    unauthorized = (401, "Invalid authorization key")
    unresolvable = (400, "Unable to resolve bank account.")
    root = "/merchant/api/v1"
    balance_path = f"{root}/balances"
    return_query = "reference=TXN0001-1"
    secret_key = "sk_live_simulated"

    async def call(self, platform: Platform, method: str, path: str, body: Any = None) -> Reply:
        headers = {"Authorization": f"Bearer {self.secret_key}"}
        return await platform.send(method, f"/kora{path}", body, headers)

    def refusal(self, reply: Reply) -> tuple[int, str]:
        assert reply.json["status"] is False
        return reply.status, reply.json["message"]

    def payout(self, reference: str, account: str, amount: str, bank: str = "058") -> bytes:
        """Returns the text of a payout request with exactly the given digits as the amount."""
        return (
            f'{{"reference":"{reference}","destination":{{"type":"bank_account","amount":{amount},'
            f'"currency":"NGN","narration":"Rent","bank_account":{{"bank":"{bank}",'
            f'"account":"{account}"}},"customer":{{"name":"Ada Obi","email":"ada@example.com"}}}}}}'
        ).encode()

    async def transfer(
        self, platform: Platform, reference: str, account: str = ACCOUNT, amount: str = "1000.00"
    ) -> Reply:
        body = self.payout(reference, account, amount)
        return await self.call(platform, "POST", f"{self.root}/transactions/disburse", body)

    def accepted_status(self, reply: Reply) -> str:
        return str(reply.data["status"])

    async def ask_transfer(self, platform: Platform, reference: str) -> Reply:
        return await self.call(platform, "GET", f"{self.root}/transactions/{reference}")

    async def transfer_status(self, platform: Platform, reference: str) -> str:
        return str((await self.ask_transfer(platform, reference)).data["status"])

    def is_unknown(self, reply: Reply) -> bool:
        return self.refusal(reply) == (404, "Transaction not found")

    def charge(self, reference: str, **more: Any) -> dict[str, Any]:
        return {
            "reference": reference,
            "amount": 1000,
            "currency": "NGN",
            "customer": {"email": "ada@example.com", "name": "Ada Obi"},
            "merchant_bears_cost": True,
            **more,
        }

    async def open_hosted(self, platform: Platform, reference: str) -> str:
        body = self.charge(reference, redirect_url=f"{platform.url}/back?order=7")
        reply = await self.call(platform, "POST", f"{self.root}/charges/initialize", body)
        return str(reply.data["checkout_url"])

    async def open_account(self, platform: Platform, reference: str) -> str:
        body = self.charge(reference)
        reply = await self.call(platform, "POST", f"{self.root}/charges/bank-transfer", body)
        return str(reply.data["bank_account"]["account_number"])

    async def charge_status(self, platform: Platform, reference: str) -> str:
        reply = await self.call(platform, "GET", f"{self.root}/charges/{reference}")
        return str(reply.data["status"])

    async def refund(self, platform: Platform, charge: str, reference: str) -> Reply:
        body = {"reference": reference, "payment_reference": charge, "amount": 400.5}
        return await self.call(platform, "POST", f"{self.root}/refunds/initiate", body)

    def is_signed(self, received: Received) -> bool:
        """Returns whether the signature is valid. The signature covers only the bytes of `data`."""
        signed = received.raw[received.raw.index(b'"data":') + len(b'"data":') : -1]
        expected = hmac.new(self.secret_key.encode(), signed, hashlib.sha256).hexdigest()
        return received.headers.get("x-korapay-signature") == expected


class Monnify:
    key = "monnify"
    accepted, processing, waiting = "PENDING", "PENDING", "PENDING_AUTHORIZATION"
    success, failed, reversed = "SUCCESS", "FAILED", "REVERSED"
    charge_paid, charge_failed = "PAID", "FAILED"
    approval_switch = "transfers_need_otp"
    insufficient = (400, "Insufficient wallet balance")
    duplicate = (400, "Supplied reference already exists!")
    unauthorized = (401, "Invalid access token")
    unresolvable = (400, "Invalid account details supplied")
    balance_path = "/api/v2/disbursements/wallet-balance?accountNumber=8012345678"
    return_query = "paymentReference=TXN0001-1"
    api_key = "MK_PROD_SIMULATED"
    secret_key = "SIMULATEDMONNIFYSECRET"

    async def login(self, platform: Platform) -> Reply:
        pair = base64.b64encode(f"{self.api_key}:{self.secret_key}".encode()).decode()
        headers = {"Authorization": f"Basic {pair}"}
        return await platform.send("POST", "/monnify/api/v1/auth/login", b"", headers)

    async def call(self, platform: Platform, method: str, path: str, body: Any = None) -> Reply:
        token = await self.login(platform)
        if token.status != 200:
            return token
        headers = {"Authorization": f"Bearer {token.json['responseBody']['accessToken']}"}
        return await platform.send(method, f"/monnify{path}", body, headers)

    def refusal(self, reply: Reply) -> tuple[int, str]:
        assert reply.json["requestSuccessful"] is False
        return reply.status, reply.json["responseMessage"]

    def order(self, reference: str, account: str = ACCOUNT, **more: Any) -> dict[str, Any]:
        return {
            "amount": 1000,
            "reference": reference,
            "narration": "Rent",
            "destinationBankCode": "058",
            "destinationAccountNumber": account,
            "destinationAccountName": holder_of(account),
            "currency": "NGN",
            "sourceAccountNumber": "8012345678",
            **more,
        }

    async def transfer(
        self, platform: Platform, reference: str, account: str = ACCOUNT, amount: str = "1000.00"
    ) -> Reply:
        body = self.order(reference, account, amount=float(amount))
        return await self.call(platform, "POST", "/api/v2/disbursements/single", body)

    def accepted_status(self, reply: Reply) -> str:
        return str(reply.json["responseBody"]["status"])

    async def ask_transfer(self, platform: Platform, reference: str) -> Reply:
        path = f"/api/v2/disbursements/single/summary?reference={reference}"
        return await self.call(platform, "GET", path)

    async def transfer_status(self, platform: Platform, reference: str) -> str:
        reply = await self.ask_transfer(platform, reference)
        return str(reply.json["responseBody"]["status"])

    def is_unknown(self, reply: Reply) -> bool:
        return self.refusal(reply) == (400, "Transaction does not exist")

    def charge(self, reference: str, **more: Any) -> dict[str, Any]:
        return {
            "amount": 1000,
            "customerName": "Ada Obi",
            "customerEmail": "ada@example.com",
            "paymentReference": reference,
            "paymentDescription": "Order 7",
            "currencyCode": "NGN",
            "contractCode": "1234567890",
            **more,
        }

    async def initialize(self, platform: Platform, reference: str, **more: Any) -> Reply:
        path = "/api/v1/merchant/transactions/init-transaction"
        return await self.call(platform, "POST", path, self.charge(reference, **more))

    async def open_hosted(self, platform: Platform, reference: str) -> str:
        back = f"{platform.url}/back?order=7"
        reply = await self.initialize(platform, reference, redirectUrl=back)
        return str(reply.json["responseBody"]["checkoutUrl"])

    async def own_reference(self, platform: Platform, reference: str) -> str:
        path = f"/api/v2/merchant/transactions/query?paymentReference={reference}"
        reply = await self.call(platform, "GET", path)
        return str(reply.json["responseBody"]["transactionReference"])

    async def open_account(self, platform: Platform, reference: str) -> str:
        opened = await self.initialize(platform, reference)
        body = {"transactionReference": opened.json["responseBody"]["transactionReference"]}
        path = "/api/v1/merchant/bank-transfer/init-payment"
        reply = await self.call(platform, "POST", path, body)
        return str(reply.json["responseBody"]["accountNumber"])

    async def charge_status(self, platform: Platform, reference: str) -> str:
        path = f"/api/v2/merchant/transactions/query?paymentReference={reference}"
        reply = await self.call(platform, "GET", path)
        return str(reply.json["responseBody"]["paymentStatus"])

    async def refund(self, platform: Platform, charge: str, reference: str) -> Reply:
        body = {
            "transactionReference": await self.own_reference(platform, charge),
            "refundAmount": 400.5,
            "refundReference": reference,
            "refundReason": "Order cancelled",
            "customerNote": "Order 7",
        }
        return await self.call(platform, "POST", "/api/v1/refunds/initiate-refund", body)

    def is_signed(self, received: Received) -> bool:
        expected = hmac.new(self.secret_key.encode(), received.raw, hashlib.sha512).hexdigest()
        return received.headers.get("monnify-signature") == expected


class Flutterwave:
    key = "flutterwave"
    accepted, processing, waiting = "NEW", "PENDING", "NEW"
    success, failed, reversed = "SUCCESSFUL", "FAILED", "FAILED"
    charge_paid, charge_failed = "successful", "failed"
    approval_switch = "transfers_need_approval"
    insufficient = (400, "Insufficient wallet balance")
    duplicate = (400, "Duplicate reference: a transfer with this reference already exists")
    unauthorized = (401, "Invalid authorization key")
    unresolvable = (400, "Sorry, recipient account could not be validated. Please try again")
    balance_path = "/v3/balances/NGN"
    return_query = "status=successful&tx_ref=TXN0001-1&transaction_id="
    secret_key = "FLWSECK-simulated-X"

    async def call(self, platform: Platform, method: str, path: str, body: Any = None) -> Reply:
        headers = {"Authorization": f"Bearer {self.secret_key}"}
        return await platform.send(method, f"/flutterwave{path}", body, headers)

    def refusal(self, reply: Reply) -> tuple[int, str]:
        assert reply.json["status"] == "error"
        return reply.status, reply.json["message"]

    def order(self, reference: str, account: str = ACCOUNT, **more: Any) -> dict[str, Any]:
        return {
            "account_bank": "058",
            "account_number": account,
            "amount": 1000,
            "currency": "NGN",
            "narration": "Rent",
            "reference": reference,
            "debit_currency": "NGN",
            **more,
        }

    async def transfer(
        self, platform: Platform, reference: str, account: str = ACCOUNT, amount: str = "1000.00"
    ) -> Reply:
        body = self.order(reference, account, amount=float(amount))
        return await self.call(platform, "POST", "/v3/transfers", body)

    def accepted_status(self, reply: Reply) -> str:
        return str(reply.data["status"])

    async def ask_transfer(self, platform: Platform, reference: str) -> Reply:
        return await self.call(platform, "GET", f"/v3/transfers?reference={reference}")

    async def transfer_status(self, platform: Platform, reference: str) -> str:
        return str((await self.ask_transfer(platform, reference)).data[0]["status"])

    def is_unknown(self, reply: Reply) -> bool:
        return (reply.status, reply.data) == (200, [])

    def link(self, reference: str, back: str) -> dict[str, Any]:
        return {
            "tx_ref": reference,
            "amount": 1000,
            "currency": "NGN",
            "redirect_url": back,
            "customer": {"email": "ada@example.com", "name": "Ada Obi"},
        }

    async def open_hosted(self, platform: Platform, reference: str) -> str:
        body = self.link(reference, f"{platform.url}/back?order=7")
        return str((await self.call(platform, "POST", "/v3/payments", body)).data["link"])

    async def open_account(self, platform: Platform, reference: str) -> str:
        body = {
            "tx_ref": reference,
            "amount": 1000,
            "currency": "NGN",
            "email": "ada@example.com",
            "is_permanent": False,
        }
        reply = await self.call(platform, "POST", "/v3/charges?type=bank_transfer", body)
        return str(reply.json["meta"]["authorization"]["transfer_account"])

    async def verify(self, platform: Platform, reference: str) -> Reply:
        path = f"/v3/transactions/verify_by_reference?tx_ref={reference}"
        return await self.call(platform, "GET", path)

    async def charge_status(self, platform: Platform, reference: str) -> str:
        return str((await self.verify(platform, reference)).data["status"])

    async def refund(self, platform: Platform, charge: str, reference: str) -> Reply:
        number = (await self.verify(platform, charge)).data["id"]
        path = f"/v3/transactions/{number}/refund"
        return await self.call(platform, "POST", path, {"amount": 400.5, "comments": reference})

    def is_signed(self, received: Received) -> bool:
        return received.headers.get("verif-hash") == "simulated-secret-hash"


EVERY: tuple[Dialect, ...] = (Paystack(), Kora(), Monnify(), Flutterwave())
DIALECTS = {each.key: each for each in EVERY}
