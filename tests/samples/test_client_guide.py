"""The programs in the clients' READMEs work."""

import asyncio
import contextlib
import json
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from manilla_client import Client, Credentials, Retries

from manilla.notify import signing
from tests.client_library import php
from tests.contract.runners import copy_typescript, install_compiler
from tests.contract.runners import run as run_command
from tests.notify.receiver import Receiver, answer, raw, receiving

REF_TRX = "PAYOUT-1"
ORDER = {
    "payout_amount": "5000.25",
    "currency_code": "NGN",
    "ref_trx": REF_TRX,
    "ipn_url": "https://shop.example/ipn",
    "withdraw_method_id": 6,
    "beneficiary": {"bank_code": "058", "account_number": "0123456789"},
}


def test_the_readmes_receiver_handles_each_notification_once(project: Path) -> None:
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


# Runs a guide's program once, as after a restart, and prints the payout's state.
TYPESCRIPT = """
import { existsSync } from "node:fs";
const [url, folder, order] = process.argv.slice(2);
const keys = { merchantKey: "test_key", apiKey: "test_api", apiSecret: "test_secret" };
const file = `${folder}/PAYOUT-1.json`;
if (!existsSync(file)) store(folder, { order: JSON.parse(order), state: "to send", detail: null });
await sendStored(folder, new Client(url, keys, { retries: { attemptsMax: 1 } }));
console.log(JSON.parse(readFileSync(file, "utf8")).state);
"""
PHP = """
[, $url, $folder, $order] = $argv;
$db = new PDO("sqlite:$folder/payouts");
if (!is_file("$folder/stored")) {
    $db->exec('CREATE TABLE payout (ref_trx PRIMARY KEY, body text, state text, detail text)');
    store($db, json_decode($order, true));
    touch("$folder/stored");
}
$keys = new Manilla\\Credentials('test_key', 'test_api', 'test_secret');
send_stored($db, new Client($url, $keys, new Manilla\\Retries(attempts_max: 1)));
echo $db->query('SELECT state FROM payout')->fetchColumn();
"""


@contextlib.asynccontextmanager
async def losing_responses() -> AsyncIterator[Receiver]:
    """Runs a server that accepts the payout, but whose first four responses are lost."""
    limited = {"error": "Slow down.", "error_code": "RATE_LIMIT_EXCEEDED"}
    duplicate = {"error": "Used.", "error_code": "DUPLICATE_REFERENCE", "trx_id": "TXN1"}
    async with receiving() as service:
        service.answers += [
            raw(b""),
            answer(502, b""),
            answer(200, b'{"trx_id": "TXN1"}'),
            answer(429, json.dumps(limited).encode(), "Retry-After: 61"),
            answer(422, json.dumps(duplicate).encode()),
        ]
        yield service
        keys = [each.headers["idempotency-key"] for each in service.received]
        assert keys == [REF_TRX] * 5
        assert len({each.body for each in service.received}) == 1


async def states(service: Receiver, run: Callable[[str], str]) -> list[str]:
    url = service.url.removesuffix("/ipn")
    return [await asyncio.to_thread(run, url) for _ in range(6)]


EXPECTED = ["to send"] * 4 + ["sent"] * 2


async def test_payouts_survive_lost_responses_and_restarts(project: Path, tmp_path: Path) -> None:
    program = next(block for block in python_blocks(project) if "def send_stored(" in block)
    names: dict[str, Any] = {}
    exec(program, names)

    def run(url: str) -> str:
        keys = Credentials("test_key", "test_api", "test_secret")
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "payouts")) as db,
            Client(url, keys, retries=Retries(attempts_max=1)) as client,
        ):
            db.execute(names["TABLE"])
            if not db.execute("SELECT 1 FROM payout").fetchall():
                names["store"](db, ORDER)
            names["send_stored"](db, client)
            state: str = db.execute("SELECT state FROM payout").fetchone()[0]
            return state

    async with losing_responses() as service:
        assert await states(service, run) == EXPECTED


@pytest.mark.long
async def test_payouts_survive_in_typescript(project: Path, tmp_path: Path) -> None:
    package = copy_typescript(tmp_path)
    install_compiler(package)
    guide = project / "clients/typescript/README.md"
    [program] = [block for block in programs(guide, "ts") if "function sendStored(" in block]
    (package / "pay.ts").write_text(program + TYPESCRIPT)
    # The packages with Node's types are not installed, so the program is only translated.
    translated = ["--noCheck", "--module", "nodenext", "--target", "es2022", "pay.ts"]
    for words in ((), translated):
        done = run_command(["npx", "--no-install", "tsc", *words], package)
        assert done.returncode == 0, done.stdout
    (tmp_path / "stored").mkdir()

    def run(url: str) -> str:
        words = ["node", "pay.js", url, str(tmp_path / "stored"), json.dumps(ORDER)]
        return run_command(words, package).stdout.strip()

    async with losing_responses() as service:
        assert await states(service, run) == EXPECTED


@pytest.mark.long
async def test_payouts_survive_in_php(project: Path, tmp_path: Path) -> None:
    php.skip_without_php()
    if "pdo_sqlite" not in php.output("-m"):
        pytest.skip("PHP has no SQLite; Debian's package is php-sqlite3")
    guide = project / "clients/php/README.md"
    [program] = [block for block in php.programs(guide) if "function send_stored(" in block]
    (tmp_path / "pay.php").write_text(f"<?php require '{php.CLIENT}/autoload.php';\n{program}{PHP}")

    def run(url: str) -> str:
        return php.output("pay.php", url, str(tmp_path), json.dumps(ORDER), at=tmp_path)

    async with losing_responses() as service:
        assert await states(service, run) == EXPECTED


def python_blocks(project: Path) -> list[str]:
    return programs(project / "clients/python/README.md", "python")


def programs(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)
