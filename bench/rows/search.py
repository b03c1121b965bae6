"""The time of a search among a million transactions, for each kind of text."""

import hashlib
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import asyncpg

from bench import seed
from bench.frame import Comparison, Contender, Row, Target, Work
from bench.load import ask, load
from bench.stage import Served, Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.embedded.postgres import SUPERUSER
from manilla.kit.ids import OWNER_CHARACTERS, RANDOM_CHARACTERS, base32
from manilla.ledger import trx_ids
from manilla.people import console_people, members, sessions
from manilla.people.roles import ConsoleRole, Realm, Role

DATABASE = "search"
PAYMENTS, PAYOUTS = 600_000, 400_000
MERCHANTS, CUSTOMERS, ACCOUNTS, AMOUNTS = 5_000, 90_000, 50_000, 5_000
MILLISECONDS_MAX = 50
PASSWORD = "a long password of the bench"
SHOWN = 123_456  # the number of the transaction that is searched for; an early one

# Two thirds of the transactions belong to the merchant whose dashboard is measured.
MERCHANTS_SQL = """
    INSERT INTO merchant (name, email, status, currencies, version)
    SELECT 'Shop ' || md5(n::text), 'shop' || n || '@example.com', 'approved', '{{NGN}}', n
      FROM generate_series(1, {number}) AS n"""


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    await stage.server.add_database(DATABASE)
    db = await Database.open(stage.server.url(DATABASE), size=1, name="bench")
    try:
        keyring = Keyring([crypto.decode_key(stage.master_key)])
        merchant = await seed.product(db, keyring)
        await stage.server.execute(DATABASE, MERCHANTS_SQL.format(number=MERCHANTS))
        await _fill(stage, merchant.id)
        texts = _texts(merchant.id)
        console = await _session(db, keyring, Realm.CONSOLE, merchant.id)
        dashboard = await _session(db, keyring, Realm.DASHBOARD, merchant.id)
    finally:
        await db.close()
    served = await stage.product(DATABASE)
    contenders = [
        await _contender(f"console, {kind}", served, "/console/search/results", console, [text])
        for kind, text in texts.items()
    ]
    own = [text for kind, text in texts.items() if kind != "merchant"]
    path = "/dashboard/sandbox/search/results"
    contenders.append(await _contender("dashboard, all kinds", served, path, dashboard, own))
    target = Target(MILLISECONDS_MAX, at_most=True)
    yield Row(
        name="search",
        title="one caller; the ratios are milliseconds",
        contenders=contenders,
        comparisons=[
            Comparison(f"ms: {each.name}", _milliseconds(each.name), target) for each in contenders
        ],
    )


def _milliseconds(name: str) -> Any:
    return lambda blocks: 1000 / blocks[name].rate


async def _contender(
    name: str, served: Served, path: str, cookie: str, texts: list[str]
) -> Contender:
    requests = [
        f"GET {path}?{urlencode({'q': text})} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\n"
        f"Cookie: {cookie}\r\n\r\n".encode()
        for text in texts
    ]
    for request, text in zip(requests, texts, strict=True):
        # Searching for something that does not exist could be faster.
        assert b'class="hits"' in await ask(served.port, request), text
    endless = itertools.cycle(requests)

    async def run(seconds: float) -> Work:
        return await load(served.port, endless, 1, seconds)

    return Contender(name, run, served.pid)


def _texts(merchant_id: int) -> Mapping[str, str]:
    """A text of each kind that finds something."""
    return {
        "reference": _reference("order", SHOWN),
        "transaction id": _trx_id(merchant_id, SHOWN, _moment(PAYMENTS, SHOWN)),
        "session id": f"{SHOWN:030}",
        "email": f"customer{SHOWN % CUSTOMERS}@example.com",
        "account number": f"{SHOWN % ACCOUNTS:010}",
        "amount": f"{_minor(PAYMENTS - 1) // 100}",
        "merchant": hashlib.md5(b"77").hexdigest()[:8],
    }


async def _session(db: Database, keyring: Keyring, realm: Realm, merchant_id: int) -> str:
    """Signs a person in and returns the cookie."""
    email = f"{realm}@example.com"
    if realm is Realm.CONSOLE:
        role = ConsoleRole.ADMINISTRATOR
        new = await console_people.create(
            db, keyring, email=email, name="Ada", role=role, password=PASSWORD
        )
        person, owner = new.person, None
    else:
        owner = merchant_id
        person = await members.add(
            db, merchant_id, email=email, name="Ada", role=Role.OWNER, password=PASSWORD
        )
    async with db.transaction() as connection:
        session = await sessions.begin(
            *(connection, person.id, realm),
            merchant_id=owner,
            second_factor=False,
            address="127.0.0.1",
            user_agent="bench",
        )
    return f"manilla_{realm}={session.token}"


async def _fill(stage: Stage, merchant_id: int) -> None:
    connection = await asyncpg.connect(stage.server.cluster.url(SUPERUSER, DATABASE))
    try:
        for table, rows in (("payment", _payments(merchant_id)), ("payout", _payouts(merchant_id))):
            first = next(rows)
            await connection.copy_records_to_table(
                table,
                columns=list(first),
                records=(tuple(row.values()) for row in itertools.chain([first], rows)),
            )
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


def _payments(merchant_id: int) -> Iterator[dict[str, Any]]:
    for number in range(PAYMENTS):
        yield {
            **_common("order", merchant_id, number, PAYMENTS),
            "status": "success",
            "commission_minor": 1500,
            "commission_bearer": "customer",
            "customer_name": "Ada Obi",
            "customer_email": f"customer{number % CUSTOMERS}@example.com",
            "allow_payment_methods": [],
            "is_legacy": False,
            "expires_at": _moment(PAYMENTS, number),
        }


def _payouts(merchant_id: int) -> Iterator[dict[str, Any]]:
    for number in range(PAYOUTS):
        yield {
            **_common("payout", merchant_id, number, PAYOUTS),
            "status": "completed",
            "fee_minor": 1000,
            "method_id": 6,
            "method_code": "providera_ngn_transfer",
            "method_name": "Provider A bank transfer",
            "provider": "providera",
            "beneficiary": f'{{"bank_code": "058", "account_number": "{number % ACCOUNTS:010}"}}',
            "account_name": "ADA OBI",
            "session_id": f"{number:030}",
        }


def _common(kind: str, merchant_id: int, number: int, count: int) -> dict[str, Any]:
    owner, moment = _owner(merchant_id, number), _moment(count, number)
    return {
        "merchant_id": owner,
        "trx_id": _trx_id(owner, number + (kind == "payout") * PAYMENTS, moment),
        "environment": "sandbox",
        "ref_trx": _reference(kind, number),
        "currency": "NGN",
        "amount_minor": _minor(number),
        "description": "Two chairs and a table",
        "ipn_url": "https://shop.example/ipn",
        "created_at": moment,
        "updated_at": moment,
    }


def _owner(merchant_id: int, number: int) -> int:
    return merchant_id if number % 3 != 1 else merchant_id + 1 + number % MERCHANTS


_NOW = datetime.now(UTC)


def _moment(count: int, number: int) -> datetime:
    return _NOW - timedelta(seconds=13 * (count - number))


def _trx_id(owner: int, number: int, moment: datetime) -> str:
    owner_digits = base32(owner, OWNER_CHARACTERS)
    return trx_ids.floor(moment) + owner_digits + base32(number, RANDOM_CHARACTERS)


def _reference(kind: str, number: int) -> str:
    return f"{kind}-{hashlib.md5(str(number).encode()).hexdigest()[:12]}"


def _minor(number: int) -> int:
    return 10_000 + number * 37 % AMOUNTS * 100
