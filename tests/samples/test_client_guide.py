"""The notification receiver from the client guide works."""

import contextlib
import json
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

from manilla.notify import signing


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


def python_blocks(project: Path) -> list[str]:
    guide = (project / "docs" / "client.md").read_text()
    return re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
