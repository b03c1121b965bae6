"""Provider A, which accepts every transfer and every charge, and sends its webhooks."""

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import Callable
from typing import Any

from bench.life.connections import read

WEBHOOK_SECRET = "life"
WEBHOOK_SECONDS = 0.2
BANK = {"name": "GTBank", "slug": "gtb", "code": "058", "country": "NG"}
ACCOUNT = {
    "bank_name": "GTBank",
    "bank_code": "058",
    "account_number": "0123456789",
    "account_name": "ADA OBI",
}
BALANCES = {"NGN": {"available_balance": "1000000000.00", "pending_balance": "0.00"}}

_REFERENCE = re.compile(rb'"reference": ?"([^"]+)"')
_AMOUNT = re.compile(rb'"amount": ?"?([0-9.]+)')


class Provider:
    """Sends the webhook of a transfer after accepting it, and of a charge after its payment."""

    def __init__(self, url: str, send: Callable[[str, bytes], None]) -> None:
        self._url = url
        self._send = send
        self._charges: dict[str, dict[str, str]] = {}  # by reference

    def answer(self, line: bytes, request: bytes) -> bytes:
        if line.endswith(b"/misc/banks/resolve"):
            return _envelope(ACCOUNT)
        if line.endswith(b"/transactions/disburse"):
            return _envelope(self._accept_transfer(request))
        if line.startswith(b"GET /merchant/api/v1/transactions/"):
            return _envelope(_transfer(_last_part(line), "success"))
        if line.endswith(b"/charges/initialize"):
            return _envelope(self._create_charge(request))
        if line.startswith(b"GET /merchant/api/v1/charges/"):
            return _envelope(self._charges[_last_part(line)])
        if line.endswith(b"/balances"):
            return _envelope(BALANCES)
        if b"/misc/banks" in line:
            return _envelope([BANK])
        return json.dumps({"status": False, "message": "Transaction not found"}).encode()

    def pay(self, page: str) -> None:
        """Receives a customer's payment on the page of a charge."""
        self._report("charge.success", self._charges[page.removeprefix(f"{self._url}/charges/")])

    def _accept_transfer(self, request: bytes) -> dict[str, str]:
        reference = read(_REFERENCE, request)
        self._report("transfer.success", _transfer(reference, "processing"))
        return _transfer(reference, "processing")

    def _create_charge(self, request: bytes) -> dict[str, str]:
        reference = read(_REFERENCE, request)
        assert reference not in self._charges, "a second charge with the same reference"
        self._charges[reference] = {
            "reference": reference,
            "status": "processing",
            "amount": read(_AMOUNT, request),
            "fee": "15.00",
            "currency": "NGN",
        }
        return {"reference": reference, "checkout_url": f"{self._url}/charges/{reference}"}

    def _report(self, event: str, data: dict[str, str]) -> None:
        """Decides a transfer or a charge a moment later, and then sends its webhook."""

        def report() -> None:
            data["status"] = "success"
            self._send(data["reference"], _webhook(event, data))

        asyncio.get_running_loop().call_later(WEBHOOK_SECONDS, report)


def _webhook(event: str, data: dict[str, str]) -> bytes:
    body = json.dumps({"event": event, "data": data}).encode()
    signature = hmac.new(WEBHOOK_SECRET.encode(), body, hashlib.sha256).hexdigest()
    return (
        b"POST /webhooks/providera HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/json\r\nx-providera-signature: %b\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (signature.encode(), len(body), body)
    )


def _transfer(reference: str, status: str) -> dict[str, str]:
    return {
        "reference": reference,
        "status": status,
        "amount": "1000.00",
        "fee": "25.00",
        "currency": "NGN",
        "message": "",
        "trace_id": f"trace-{reference}",
    }


def _envelope(data: Any) -> bytes:
    return json.dumps({"status": True, "message": "Success", "data": data}).encode()


def _last_part(line: bytes) -> str:
    return line.rsplit(b"/", 1)[1].decode()
