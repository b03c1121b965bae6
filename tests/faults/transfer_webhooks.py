"""Signed webhooks about transfers, which tests send in any order and number."""

import json
from typing import Any

from tests.client import Reply, Site
from tests.payments import webhooks

# Provider B sends no webhooks about transfers.
RAILS_WITH_WEBHOOKS = ["a", "c"]


def transfer(rail: str, trx_id: str, status: str, amount: int = 1000, **more: Any) -> bytes:
    """A signed webhook. `status` is success, failed or reversed."""
    data = {"reference": trx_id, "amount": amount, "fee": 10, "currency": "NGN"}
    if rail == "a":
        event = {"event": f"transfer.{status}", "data": {**data, "status": status}}
    else:
        words = {"success": "SUCCESSFUL", "failed": "FAILED", "reversed": "REVERSED"}
        event = {"event": "transfer.completed", "data": {**data, "id": 1, "status": words[status]}}
    return json.dumps({**event, **more}).encode()


async def send_webhook(site: Site, rail: str, message: bytes, **changed: Any) -> Reply:
    return await webhooks.send(site, f"provider{rail}", message, **changed)
