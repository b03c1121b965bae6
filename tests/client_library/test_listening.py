"""`manilla-client listen` with a site in the test process. test_listen.py has more tests."""

import asyncio
import signal
from pathlib import Path

from manilla_client import verify_ipn

from manilla.services import Services
from tests.client_library.tool import TOOL, environment, variables
from tests.notify.receiver import answer, receiving
from tests.payments import steps
from tests.support.client import Merchant
from tests.support.timeouts import TIMEOUT_SECONDS


async def test_an_event_is_forwarded_until_it_is_accepted_and_then_remembered(
    services: Services, merchant: Merchant, tmp_path: Path
) -> None:
    own = merchant.credentials
    keys = variables(merchant.site.port, own.merchant_key, own.api_key, own.api_secret)
    since = ("--since", "2026-01-01T00:00:00Z")
    trx_id = await steps.new_payment(merchant)
    await steps.complete(services, merchant, trx_id)
    async with receiving() as receiver, asyncio.timeout(TIMEOUT_SECONDS):
        receiver.answers = [answer(503), answer(200)]
        listener = await asyncio.create_subprocess_exec(
            *(*TOOL, "listen", "--forward-to", receiver.url, *since),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(tmp_path, **keys),
        )
        assert listener.stdout is not None
        line = (await listener.stdout.readline()).decode()
        listener.send_signal(signal.SIGINT)
        out, err = await listener.communicate()
    assert (listener.returncode, out) == (0, b""), err
    assert line.split()[1:3] == ["payment.success", trx_id]
    first, second = receiver.received
    assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])
    assert verify_ipn(second.body, second.headers, own.api_secret).trx_id == trx_id
    [position] = (tmp_path / "state/manilla-client/listen").glob("*.json")
    assert second.headers["webhook-id"] in position.read_text()
