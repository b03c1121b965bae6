"""initiate-payment, as a merchant calls it."""

import asyncio

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from tests.client import Site, new_merchant
from tests.payments.orders import INITIATE, order


async def test_smoke(site: Site, db: Database, keyring: Keyring) -> None:
    merchant = await new_merchant(site, db, keyring)
    body = order()
    reply = await merchant.post(INITIATE, body)
    print(reply.status, reply.body)
    assert reply.status == 200
    again = await merchant.post(INITIATE, body)
    print(again.status, again.body)
    trx = again.json["trx_id"]
    got = await merchant.get(f"/api/v1/verify-payment/{trx}")
    print(got.body, got.headers)
    replies = await asyncio.gather(*(merchant.post(INITIATE, order()) for _ in range(20)))
    assert [r.status for r in replies] == [200] * 20
