"""A cell forwards a provider's webhook to the cell of the merchant, which verifies it again."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.cells import registry
from manilla.kit.database.connections import Database
from manilla.kit.embedded.postgres import Cluster
from manilla.ledger import trx_ids
from manilla.providers import credentials
from manilla.settings import Settings
from tests.cells.pair import ABUJA, CellPair, RunningCell, running_pair
from tests.faults import transfer_webhooks
from tests.support import kinds
from tests.support.client import Reply
from tests.support.instance import free_port
from tests.support.kinds import TestedKind

KIND = kinds.BY_RAIL["a"]
MOVED = 7  # a merchant of lagos, which some tests move to abuja


@pytest.fixture(scope="module")
async def cells(cluster: Cluster, settings: Settings) -> AsyncIterator[CellPair]:
    async with running_pair(cluster, settings, "cell_webhooks") as both:
        await _configure(both.lagos)
        yield both


@pytest.fixture
async def pair(cells: CellPair) -> AsyncIterator[CellPair]:
    """The two cells of the module, as before the first test: only lagos has the credentials."""
    yield cells
    lagos, abuja = cells.lagos.services, cells.abuja.services
    await credentials.clear(abuja.db, KIND.provider)
    await registry.change(lagos.db, lagos.keyring, "abuja", base_url=abuja.base_url)
    for services in (lagos, abuja):
        async with services.db.transaction() as connection:
            await registry.record_home(connection, MOVED, "lagos")
    await cells.look()


async def _configure(cell: RunningCell, kind: TestedKind = KIND) -> None:
    """Enters the credentials of the same provider account."""
    given = kind.credentials("http://127.0.0.1:9")
    await credentials.change(cell.services.db, cell.services.keyring, kind.provider, given)
    await cell.services.watch.look()


async def _send(cell: RunningCell, trx_id: str, **changed: Any) -> Reply:
    message = transfer_webhooks.transfer("a", trx_id, "success")
    return await transfer_webhooks.send_webhook(cell.site, "a", message, **changed)


async def _stored(db: Database, trx_id: str) -> int:
    return await db.number("SELECT count(*) FROM webhook WHERE reference = $1", trx_id)


async def test_a_webhook_reaches_the_cell_of_its_merchant_once(pair: CellPair) -> None:
    await _configure(pair.abuja)
    trx_id = trx_ids.new(ABUJA[0] + 4)
    # Providers send these headers, and our HTTP client sets them too.
    sent = {"User-Agent": "provider/1.0", "Accept": "*/*", "Accept-Encoding": "gzip"}
    assert (await _send(pair.lagos, trx_id, more=sent)).status == 200
    assert await _stored(pair.abuja.services.db, trx_id) == 1
    assert await _stored(pair.lagos.services.db, trx_id) == 0


async def test_a_webhook_about_a_moved_merchant_follows_it(pair: CellPair) -> None:
    await _configure(pair.abuja)
    for cell in (pair.lagos, pair.abuja):
        async with cell.services.db.transaction() as connection:
            await registry.record_home(connection, MOVED, "abuja")
    await pair.look()
    trx_id = trx_ids.new(MOVED)
    assert (await _send(pair.lagos, trx_id)).status == 200
    assert await _stored(pair.abuja.services.db, trx_id) == 1
    assert await _stored(pair.lagos.services.db, trx_id) == 0


def _transfers(account_id: str) -> dict[str, Any]:
    """Returns the webhook of each provider about a transfer into a customer's account."""
    paid = {"amount": 1000, "currency": "NGN", "status": "success", "reference": "THEIRS-1"}
    customer = {"email": f"{account_id.lower()}@pay.example.com"}
    kora = {"virtual_bank_account": {"account_reference": account_id}}
    monnify = {
        "product": {"type": "RESERVED_ACCOUNT", "reference": account_id},
        "transactionReference": "THEIRS-1",
        "amountPaid": 1000,
        "currency": "NGN",
    }
    flutterwave = {**paid, "id": 1, "tx_ref": account_id, "status": "successful"}
    return {
        "paystack": {
            "event": "charge.success",
            "data": {**paid, "channel": "dedicated_nuban", "customer": customer},
        },
        "kora": {
            "event": "charge.success",
            "data": {**paid, "virtual_bank_account_details": kora},
        },
        "monnify": {"eventType": "SUCCESSFUL_TRANSACTION", "eventData": monnify},
        "flutterwave": {"event": "charge.completed", "data": flutterwave},
    }


@pytest.mark.parametrize("rail", ["paystack", "kora", "monnify", "flutterwave"])
async def test_a_webhook_about_a_transfer_reaches_the_cell_of_its_account(
    pair: CellPair, rail: str
) -> None:
    """Its reference is the provider's own, so the account tells the cell."""
    reference = "1" if rail == "flutterwave" else "THEIRS-1"
    for cell in (pair.lagos, pair.abuja):
        await _configure(cell, kinds.BY_RAIL[rail])
        await cell.services.db.execute("DELETE FROM webhook WHERE reference = $1", reference)
    lagos, abuja = pair.lagos.services.db, pair.abuja.services.db
    for owner, stored in ((ABUJA[0] + 4, (0, 1)), (MOVED, (1, 1))):
        message = kinds.encoded(_transfers(trx_ids.ACCOUNT_IDS.new(owner))[rail])
        reply = await transfer_webhooks.send_webhook(pair.lagos.site, rail, message)
        assert reply.status == 200
        assert (await _stored(lagos, reference), await _stored(abuja, reference)) == stored


async def test_a_webhook_about_an_own_merchant_or_an_unknown_one_stays(pair: CellPair) -> None:
    for trx_id in (trx_ids.new(MOVED), trx_ids.new(ABUJA[1] + 1), "not-ours"):
        assert (await _send(pair.lagos, trx_id)).status == 200
        assert await _stored(pair.lagos.services.db, trx_id) == 1


async def test_a_forged_webhook_is_not_forwarded(pair: CellPair) -> None:
    await _configure(pair.abuja)
    trx_id = trx_ids.new(ABUJA[0])
    assert (await _send(pair.lagos, trx_id, secret="guess")).status == 401
    assert await _stored(pair.abuja.services.db, trx_id) == 0


async def test_the_provider_sends_again_while_the_other_cell_is_away(pair: CellPair) -> None:
    lagos = pair.lagos.services
    gone = f"http://127.0.0.1:{free_port()}"
    await registry.change(lagos.db, lagos.keyring, "abuja", base_url=gone)
    await pair.look()
    trx_id = trx_ids.new(ABUJA[0])
    reply = await _send(pair.lagos, trx_id)
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert await _stored(lagos.db, trx_id) == 0


async def test_a_webhook_that_the_other_cell_cannot_use_is_not_repeated(pair: CellPair) -> None:
    trx_id = trx_ids.new(ABUJA[0])  # abuja does not have the account's credentials
    assert (await _send(pair.lagos, trx_id)).status == 200
    assert await _stored(pair.abuja.services.db, trx_id) == 0


async def test_a_webhook_is_never_forwarded_twice(pair: CellPair) -> None:
    """Each cell believes that the merchant lives in the other cell, as at the end of a move."""
    await _configure(pair.abuja)
    async with pair.lagos.services.db.transaction() as connection:
        await registry.record_home(connection, MOVED, "abuja")
    await pair.look()
    assert not pair.abuja.services.cells.now.is_elsewhere(ABUJA[0])
    trx_id = trx_ids.new(MOVED)
    assert (await _send(pair.lagos, trx_id)).status == 503
    for cell in (pair.lagos, pair.abuja):
        assert await _stored(cell.services.db, trx_id) == 0
