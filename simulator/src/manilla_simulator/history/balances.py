"""Sets the simulated providers' balances after a restart to the balances in our ledger.

The simulator keeps its state in memory. Without this step, each start would cause a difference
between the provider's balance and the ledger.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla_simulator.state import OPENING_BALANCE

SECONDS = 10


async def restore(db: Database, simulated: Mapping[str, str]) -> None:
    """Restores the balances. `simulated` maps each provider to its URL at the simulator.

    A provider whose opening balance is not in the ledger keeps the simulator's balance.
    """
    for provider, url in simulated.items():
        minor: int | None = await db.value(
            """
            SELECT -sum(e.amount_minor)::bigint
              FROM entry e
              JOIN posting p ON p.merchant_id = e.merchant_id AND p.id = e.posting_id
             WHERE e.account = $1 AND e.environment = 'production' AND e.currency = $2
            HAVING bool_or(p.kind = 'settle_top_up')""",
            *(posting.clearing(provider), OPENING_BALANCE.currency),
        )
        if minor is not None and minor >= 0:
            await _set(url, Money(OPENING_BALANCE.currency, minor))


async def _set(url: str, balance: Money) -> None:
    """Calls the simulator's control API without an HTTP client, which would be slow to load."""
    at = urlsplit(url)
    body = msgspec.json.encode({"available": f"{balance.amount:f}"})
    head = (
        f"POST /control/api{at.path}/balance HTTP/1.1\r\nhost: {at.netloc}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection(at.hostname, at.port)
            writer.write(head.encode() + body)
            await reader.read()
            writer.close()
