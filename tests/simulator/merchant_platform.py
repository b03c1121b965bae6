"""A platform that calls the simulator and receives its webhooks."""

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Mapping
from decimal import Decimal
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from tests.support import waiting
from tests.support.timeouts import TIMEOUT_SECONDS

HEADERS: dict[str, dict[str, str]] = {
    "a": {"Authorization": "Bearer sim_a_secret"},
    "b": {"api-key": "sim_b_key", "api-secret": "Bearer sim_b_secret"},
    "c": {"Authorization": "Bearer sim_c_secret"},
}
BANK = {"a": "058", "b": "000013", "c": "C058"}  # All three rails have this bank.

# Maps each provider to its status for an accepted transfer and for each outcome.
ACCEPTED = {"a": "processing", "b": "pending", "c": "NEW"}
PROCESSING = {"a": "processing", "b": "pending", "c": "PENDING"}
SUCCESS = {"a": "success", "b": "success", "c": "SUCCESSFUL"}
FAILED = {"a": "failed", "b": "failed", "c": "FAILED"}
REVERSED = {"a": "reversed", "b": "reversed", "c": "REVERSED"}


class Reply(msgspec.Struct, frozen=True):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        """Returns the response's JSON with exact decimals instead of floats."""
        return json.loads(self.body, parse_float=Decimal)

    @property
    def data(self) -> Any:
        return self.json["data"]

    @property
    def refusal(self) -> tuple[int, str]:
        assert self.json["status"] in (False, "error")
        return self.status, self.json["message"]


class Received(msgspec.Struct, frozen=True):
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw, parse_float=Decimal)


class Platform:
    """Calls the simulator like a provider adapter, and records the received webhooks."""

    def __init__(self, session: aiohttp.ClientSession, simulator: str) -> None:
        self.simulator = simulator
        self.url = ""
        self.received: list[Received] = []
        # The response statuses for the next webhooks. Later webhooks get 200.
        self.answers: list[int] = []
        self._session = session

    async def receive(self, request: web.Request) -> web.Response:
        self.received.append(Received(request.path, request.headers, await request.read()))
        return web.Response(status=self.answers.pop(0) if self.answers else 200)

    async def arrived(self) -> None:
        """Waits until all webhooks that the simulator sent before this call have arrived.

        The simulator and the platform share one event loop, so earlier webhooks reach the
        platform's server before this method's request.
        """
        async with self._session.get(f"{self.url}/back") as answer:
            await answer.read()

    async def sent_webhooks(self, key: str) -> list[dict[str, Any]]:
        """Waits until no webhook is in delivery, and returns the provider's webhooks."""

        async def all_ended() -> bool:
            listed = (await self.control(f"{key}/webhooks"))["webhooks"]
            return all(each["status"] != "sending" for each in listed)

        await waiting.until(all_ended)
        await self.arrived()
        listed: list[dict[str, Any]] = (await self.control(f"{key}/webhooks"))["webhooks"]
        return listed

    async def hangs(self, key: str, request: Coroutine[Any, Any, Reply]) -> None:
        """Sends a request that gets no response from the provider, and stops waiting."""
        sending = asyncio.create_task(request)

        async def is_received() -> bool:
            listed = (await self.control(f"{key}/requests"))["requests"]
            return any(each["fault"] for each in listed)

        await waiting.until(is_received)
        await self.arrived()
        assert not sending.done()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    async def webhooks(self, count: int) -> list[Received]:
        await waiting.until_true(lambda: len(self.received) >= count)
        return self.received

    async def send(
        self,
        method: str,
        target: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Reply:
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        async with self._session.request(
            method,
            self.simulator + target,
            data=raw,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=timeout_seconds),
        ) as answer:
            return Reply(answer.status, await answer.read())

    async def call(self, key: str, method: str, path: str, body: Any = None, **how: Any) -> Reply:
        return await self.send(method, f"/{key}{path}", body, HEADERS[key], **how)

    async def control(self, target: str, body: Any = None) -> Any:
        method = "GET" if body is None else "POST"
        reply = await self.send(method, f"/control/api/{target}", body)
        assert reply.status == 200, reply.body
        return reply.json

    async def transfer(
        self, key: str, reference: str, account: str = "0123456789", amount: str = "1000.00"
    ) -> Reply:
        return await self.call(
            key, "POST", TRANSFER_PATH[key], _order(key, reference, account, amount)
        )

    async def transfer_status(self, key: str, reference: str) -> str:
        reply = await self.ask_transfer(key, reference)
        data = reply.data[0] if key == "c" else reply.data
        status: str = data["status"]
        return status

    async def ask_transfer(self, key: str, reference: str) -> Reply:
        if key == "a":
            path = f"/merchant/api/v1/transactions/{reference}"
            return await self.call("a", "GET", path)
        if key == "b":
            path = "/pms/api/external/request/wallet/transfer-status/"
            return await self.call("b", "POST", path, {"reference": reference})
        return await self.call("c", "GET", f"/v3/transfers?reference={reference}")

    async def settled(self, key: str, reference: str, status: str) -> None:
        async def is_settled() -> bool:
            return await self.transfer_status(key, reference) == status

        await waiting.until(is_settled)

    async def available(self, key: str) -> Decimal:
        state = await self.control("state")
        return Decimal(state[key]["balance"]["available"])

    async def open_hosted(self, key: str, reference: str, amount: str = "1000.00") -> str:
        back = f"{self.url}/back?order=7"
        customer = {"name": "Ada Obi", "email": "ada@example.com"}
        if key == "a":
            body = charge_a(reference, amount, redirect_url=back, narration="Order 7")
            reply = await self.call("a", "POST", "/merchant/api/v1/charges/initialize", body)
            return str(reply.data["checkout_url"])
        if key == "b":
            order = {"businessid": "sim_b_business", "reference": reference, "amount": amount}
            body = {**order, "currency": "NGN", **customer, "redirect_url": back}
            reply = await self.call("b", "POST", "/pms/transactions/initialize/", body)
            return str(reply.data["checkout_url"])
        body = {"tx_ref": reference, "amount": float(amount), "currency": "NGN"}
        body |= {"redirect_url": back, "customer": customer, "customizations": {"title": "Ada"}}
        reply = await self.call("c", "POST", "/v3/payments", body)
        return str(reply.data["link"])

    async def open_account(self, key: str, reference: str, amount: str = "1000.00") -> str:
        if key == "a":
            body = charge_a(reference, amount, kyc={"bvn": "22222222222"})
            reply = await self.call("a", "POST", "/merchant/api/v1/charges/bank-transfer", body)
            return str(reply.data["bank_account"]["account_number"])
        order = {"businessid": "sim_b_business", "reference": reference, "amount": amount}
        body = {**order, "email": "ada@example.com", "name": "Ada Obi"}
        body |= {"bankcode": ["000017"], "account_type": "DYNAMIC"}
        path = "/pms/api/external/request/customerReservedAccount/"
        reply = await self.call("b", "POST", path, body)
        return str(reply.data["banks"][0]["accountNumber"])

    async def charge_status(self, key: str, reference: str) -> Any:
        path = {
            "a": f"/merchant/api/v1/charges/{reference}",
            "b": f"/pms/transactions/{reference}/confirm/",
            "c": f"/v3/transactions/verify_by_reference?tx_ref={reference}",
        }[key]
        return (await self.call(key, "GET", path)).data


TRANSFER_PATH = {
    "a": "/merchant/api/v1/transactions/disburse",
    "b": "/pms/api/external/request/wallet/transfer/",
    "c": "/v3/transfers",
}


def charge_a(reference: str, amount: str, **more: Any) -> dict[str, Any]:
    return {
        "reference": reference,
        "amount": float(amount),
        "currency": "NGN",
        "customer": {"name": "Ada Obi", "email": "ada@example.com"},
        **more,
    }


def _order(key: str, reference: str, account: str, amount: str) -> bytes:
    """Returns the text of a request body with exactly the given digits as the amount."""
    if key == "a":
        return (
            f'{{"reference":"{reference}","destination":{{"type":"bank_account","amount":{amount},'
            f'"currency":"NGN","narration":"Rent","bank_account":{{"bank":"058","account":"{account}"}},'
            '"customer":{"name":"Ada Obi","email":"ada@example.com"}}}'
        ).encode()
    if key == "b":
        return (
            f'{{"reference":"{reference}","amount":"{amount}","account_number":"{account}",'
            f'"bank_code":"000013","account_name":"OBI ADA","narration":"Rent",'
            f'"name_enquiry_reference":"{enquiry_reference("000013", account)}"}}'
        ).encode()
    return (
        f'{{"reference":"{reference}","account_bank":"C058","account_number":"{account}",'
        f'"amount":{amount},"currency":"NGN","narration":"Rent","debit_currency":"NGN"}}'
    ).encode()


def enquiry_reference(bank_code: str, account: str) -> str:
    return "NER" + hashlib.sha256(f"{bank_code}/{account}".encode()).hexdigest()[:24].upper()
