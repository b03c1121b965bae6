"""Reads all pages of the API's lists."""

from typing import Any
from urllib.parse import urlencode

from tests.support.client import Merchant, Reply


async def get(merchant: Merchant, path: str, **query: Any) -> Reply:
    """Requests a page of a list. `since` and `until` are sent as `from` and `to`."""
    names = {"since": "from", "until": "to"}
    sent = {names.get(name, name): value for name, value in query.items() if value is not None}
    return await merchant.get(f"{path}?{urlencode(sent)}" if sent else path)


async def page(merchant: Merchant, path: str, **query: Any) -> Any:
    reply = await get(merchant, path, **query)
    assert reply.status == 200, reply.body
    assert set(reply.json) == {"data", "next_cursor"}
    return reply.json


async def every(merchant: Merchant, path: str, **query: Any) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    while True:
        answer = await page(merchant, path, cursor=cursor, **query)
        found += answer["data"]
        cursor = answer["next_cursor"]
        if cursor is None:
            return found


def ids(items: list[Any]) -> list[str]:
    return [item["trx_id"] for item in items]
