"""The merchants' notification receiver, which can fail as real receivers do."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections import defaultdict
from typing import Any

from aiohttp import web

from tests.simulation.facts import Notice

# How the receiver handles a notification, apart from accepting it.
ERROR, LOST, SLOW = "error", "lost", "slow"
SLOW_SECONDS = 2.5


class Receiver:
    """Verifies, stores and confirms notifications, and events for webhook endpoints.

    `failures` lists faults for the next notifications.
    """

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.deliveries: list[Notice] = []
        # When the copies of each notification (`ipn`) and event (`endpoint`) arrived, by its id.
        self.moments: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.endpoint_secrets: dict[int, str] = {}
        self.secrets: dict[int, set[str]] = defaultdict(set)
        self.failures: list[str] = []

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/{merchant}", self._receive)
        app.router.add_post("/endpoint/{merchant}", self._receive_event)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        merchant, raw = int(request.match_info["merchant"]), await request.read()
        failure = self.failures.pop() if self.failures else ""
        if failure == ERROR:
            return web.Response(status=500)
        if failure == SLOW:
            await asyncio.sleep(SLOW_SECONDS)
        given = request.headers.get("X-Signature", "").removeprefix("sha256=")
        if not any(_sign(secret, raw) == given for secret in self.secrets[merchant]):
            # The keys were rotated, and the merchant has not installed the new secret yet.
            return web.Response(status=401)
        number = request.headers["webhook-id"]
        self.moments["ipn", number].append(time.monotonic())
        self.notices.append(notice_of(number, merchant, json.loads(raw)))
        if failure == LOST and request.transport is not None:
            # The notification is stored, but the sender never gets the response.
            request.transport.close()
        return web.Response()

    async def _receive_event(self, request: web.Request) -> web.Response:
        """Receives an event at a webhook endpoint, which is signed as Standard Webhooks defines."""
        merchant, raw = int(request.match_info["merchant"]), await request.read()
        number, moment = request.headers["webhook-id"], request.headers["webhook-timestamp"]
        key = base64.b64decode(self.endpoint_secrets[merchant].removeprefix("whsec_"))
        signed = hmac.digest(key, f"{number}.{moment}.".encode() + raw, "sha256")
        wanted = f"v1,{base64.b64encode(signed).decode()}"
        if wanted not in request.headers["webhook-signature"].split():
            return web.Response(status=401)
        self.moments["endpoint", number].append(time.monotonic())
        self.deliveries.append(notice_of(number, merchant, json.loads(raw)))
        return web.Response()


def notice_of(number: str, merchant: int, body: Any) -> Notice:
    data = body["data"]
    trx_id = data.get("refund_trx_id") or data["trx_id"]
    return Notice(number, merchant, trx_id, body["message"], body["status"])


def _sign(secret: str, raw: bytes) -> str:
    return hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
