"""Signed webhooks about transfers, which a test can send in any order and any number of times."""

from typing import Any

from tests.payments import webhooks
from tests.support import kinds
from tests.support.client import Reply, Site


def transfer(rail: str, trx_id: str, status: str, amount: Any = 1000, **more: Any) -> bytes:
    """Returns a webhook in the provider's format. `status` is success, failed or reversed."""
    return kinds.encoded({**kinds.BY_RAIL[rail].transfer(trx_id, status, amount), **more})


async def send_webhook(site: Site, rail: str, message: bytes, **changed: Any) -> Reply:
    return await webhooks.send(site, kinds.BY_RAIL[rail].provider, message, **changed)
