"""The programs of the client guide work."""

import asyncio
import contextlib
import json
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

from manilla_client import Client, Credentials, Retries

from manilla.notify import signing
from tests.notify.receiver import answer, raw, receiving

REF_TRX = "PAYOUT-1"
ORDER = {
    "payout_amount": "5000.25",
    "currency_code": "NGN",
    "ref_trx": REF_TRX,
    "ipn_url": "https://shop.example/ipn",
    "withdraw_method_id": 6,
    "beneficiary": {"bank_code": "058", "account_number": "0123456789"},
}


def test_the_guides_receiver_handles_each_notification_once(project: Path) -> None:
    program = next(block for block in python_blocks(project) if "def receive(" in block)
    names: dict[str, Any] = {}
    exec(program, names)
    data = {"trx_id": "TXN1", "ref_trx": "ORDER-1"}
    body = json.dumps({"event": "payment", "status": "completed", "data": data}).encode()
    headers = signing.headers(
        b"secret", notification_id="msg_1", environment="sandbox", body=body, now=int(time.time())
    )
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE seen (a, b, c, d, UNIQUE (a, b, c, d))")
        db.execute("CREATE TABLE orders (reference, is_paid)")
        db.execute("INSERT INTO orders VALUES ('ORDER-1', 0), ('ORDER-2', 0)")
        assert names["receive"](db, headers, body + b" ", "secret") == 401
        assert names["receive"](db, headers, body, "secret") == 200
        assert names["receive"](db, headers, body, "secret") == 200
        assert db.execute("SELECT count(*) FROM seen").fetchone() == (1,)
        assert db.execute("SELECT is_paid FROM orders ORDER BY 1").fetchall() == [(0,), (1,)]


async def test_the_guides_payouts_survive_lost_responses_and_restarts(
    project: Path, tmp_path: Path
) -> None:
    program = next(block for block in python_blocks(project) if "def send_stored(" in block)
    names: dict[str, Any] = {}
    exec(program, names)

    def run(url: str) -> tuple[str, str]:
        """Runs the program once, as after a restart. Returns the payout's state and detail."""
        keys = Credentials("test_key", "test_api", "test_secret")
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "payouts")) as db,
            Client(url, keys, retries=Retries(attempts_max=1)) as client,
        ):
            db.execute(names["TABLE"])
            if not db.execute("SELECT 1 FROM payout").fetchall():
                names["store"](db, ORDER)
            names["send_stored"](db, client)
            state, detail = db.execute("SELECT state, detail FROM payout").fetchone()
            return state, detail

    duplicate = {"error": "Used.", "error_code": "DUPLICATE_REFERENCE", "trx_id": "TXN1"}
    limited = {"error": "Slow down.", "error_code": "RATE_LIMIT_EXCEEDED"}
    async with receiving() as service:
        service.answers += [
            raw(b""),
            answer(502, b""),
            answer(200, b'{"trx_id": "TXN1"}'),
            answer(429, json.dumps(limited).encode(), "Retry-After: 60"),
            answer(422, json.dumps(duplicate).encode()),
        ]
        url = service.url.removesuffix("/ipn")
        found = [await asyncio.to_thread(run, url) for _ in range(6)]
    assert [state for state, _ in found] == ["to send"] * 4 + ["sent"] * 2
    assert found[-1] == ("sent", "TXN1")
    sent = {(each.headers["idempotency-key"], each.body) for each in service.received}
    assert len(service.received) == 5
    assert [key for key, _ in sent] == [REF_TRX]


def python_blocks(project: Path) -> list[str]:
    guide = (project / "docs" / "client.md").read_text()
    return re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
