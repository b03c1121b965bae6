"""Measures a search among two million transactions, for each type of search text."""

import hashlib
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from bench import history
from bench.frame import Comparison, Contender, Row, Target, Work
from bench.history import History
from bench.load import ask, load
from bench.stage import Served, Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.people import console_people, members, sessions
from manilla.people.roles import ConsoleRole, Realm, Role

TRANSACTIONS = 1_000_000  # number of payments, and of payouts
MILLISECONDS_MAX = 50
PASSWORD = "a long password of the bench"
SHOWN = 1234  # number of the searched transaction, an early one
MERCHANT = "merchant"
PATHS = {
    Realm.CONSOLE: "/console/search/results",
    Realm.DASHBOARD: "/dashboard/sandbox/search/results",
}


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    past = await history.prepared(stage, TRANSACTIONS)
    console = await searches(stage, past, Realm.CONSOLE, "console")
    dashboard = await searches(stage, past, Realm.DASHBOARD, "dashboard")
    contenders = [*console[:-1], dashboard[-1]]
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


async def searches(stage: Stage, past: History, realm: Realm, name: str) -> list[Contender]:
    """Creates a contender for each type of search text, and one that rotates through all types."""
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    db = await Database.open(stage.server.url(past.database), size=1, name="bench")
    try:
        texts = await _texts(db, past)
        cookie = await _session(db, keyring, realm, past.merchant.id)
    finally:
        await db.close()
    if realm is Realm.DASHBOARD:
        texts = {kind: text for kind, text in texts.items() if kind != MERCHANT}
    served = await stage.product(past.database)
    return [
        await _contender(f"{name}, {kind}", served, PATHS[realm], cookie, chosen)
        for kind, chosen in {
            **{kind: [text] for kind, text in texts.items()},
            "all kinds": list(texts.values()),
        }.items()
    ]


async def _contender(
    name: str, served: Served, path: str, cookie: str, texts: Sequence[str]
) -> Contender:
    requests = [
        f"GET {path}?{urlencode({'q': text})} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\n"
        f"Cookie: {cookie}\r\n\r\n".encode()
        for text in texts
    ]
    for request, text in zip(requests, texts, strict=True):
        # The benchmark must find something, because an unsuccessful search could be faster.
        assert b'class="hits"' in await ask(served.port, request), text
    endless = itertools.cycle(requests)

    async def run(seconds: float) -> Work:
        return await load(served.port, endless, 1, seconds)

    return Contender(name, run, served.pid)


async def _texts(db: Database, past: History) -> Mapping[str, str]:
    """Returns a search text of each type that has a result."""
    reference = f"order-{hashlib.md5(str(SHOWN).encode()).hexdigest()}"
    payment = await db.record(
        """
        SELECT trx_id, customer_email FROM payment
         WHERE merchant_id = $1 AND environment = 'sandbox' AND ref_trx = $2""",
        past.merchant.id,
        reference,
    )
    newest_minor = await db.value(
        "SELECT amount_minor FROM payment WHERE merchant_id = $1 ORDER BY trx_id DESC LIMIT 1",
        past.merchant.id,
    )
    return {
        "reference": reference,
        "transaction id": payment["trx_id"],
        "session id": f"{SHOWN:030}",
        "email": payment["customer_email"],
        "account number": f"{SHOWN:010}",
        "amount": f"{newest_minor // 100}",
        MERCHANT: hashlib.md5(b"77").hexdigest()[:8],
    }


async def _session(db: Database, keyring: Keyring, realm: Realm, merchant_id: int) -> str:
    """Signs in a new user and returns the session cookie."""
    number = await db.value("SELECT count(*) FROM person")
    email = f"{realm}{number}@example.com"
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
