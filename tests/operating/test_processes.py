"""The processes of `manilla up` read secrets from files, and send their spans to a collector."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.payments.orders import INITIATE, order
from tests.support.client import Reply, Site
from tests.support.command import manilla
from tests.support.instance import Instance, prepare_folder
from tests.support.signing import sign
from tests.support.tracing_collector import collecting
from tests.support.waiting import until

TRACE = "0af7651916cd43dd8448eb211c80319c"


class _Caller:
    """A merchant that sends signed requests to the instance's sandbox."""

    def __init__(self, site: Site, keys: dict[str, str]) -> None:
        self._site = site
        self._keys = keys

    async def call(self, method: str, target: str, body: bytes = b"") -> Reply:
        moment = str(int(time.time()))
        headers = {
            "X-Environment": "sandbox",
            "X-Merchant-Key": self._keys["merchant_key"],
            "X-API-Key": self._keys["api_key"],
            "X-Timestamp": moment,
            "X-Signature": sign(self._keys["api_secret"], moment, method, target, body),
            "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
        }
        return await self._site.send(method, target, headers, body)

    async def pay(self) -> None:
        """Creates a payment, and waits until the worker has completed it."""
        reply = await self.call("POST", INITIATE, json.dumps(order()).encode())
        trx_id = reply.json["payment_url"].partition("/checkout/")[2].partition("?")[0]

        async def is_paid() -> bool:
            verified = await self.call("GET", f"/api/v1/verify-payment/{trx_id}")
            return bool(verified.json["status"] == "success")

        await until(is_paid)


@pytest.mark.long
def test_secrets_are_in_no_environment_and_spans_of_both_processes_are_sent(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    prepare_folder(folder, "--no-demo")
    key_file = (folder / "master.key").rename(tmp_path / "key")
    given = {"MANILLA_MASTER_KEY_FILE": str(key_file)}

    def run(*words: str) -> Any:
        done = manilla(*words, "--json", "--data", str(folder), **given)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with collecting() as collector:
        environment = {**given, "MANILLA_OTLP_URL": collector.url}
        instance = Instance(folder, "--no-demo", environment=environment)
        try:
            instance.wait()
            run("setting", "set", "sandbox_complete_seconds", "0")
            run("setting", "set", "rate_limit_per_minute", "1000000")
            words = ("merchant", "create", "Ada Stores", "ada@example.com", "--status", "approved")
            asyncio.run(_Caller(instance.site, run(*words)["sandbox"]).pay())
            key = key_file.read_bytes().strip()
            for pid in instance.tree():
                assert key not in Path(f"/proc/{pid}/environ").read_bytes()
        finally:
            assert instance.stop() == 0
    spans = {(span.service, span.name) for span in collector.spans if span.trace_id == TRACE}
    assert ("manilla-api", f"POST {INITIATE}") in spans
    assert ("manilla-worker", "job payment.sandbox") in spans
