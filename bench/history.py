"""Databases with a long history of payments, payouts and delivered notifications.

`MANILLA_BENCH_ROWS` sets the number of rows in the larger database. Two thirds of the rows belong
to the measured merchant and the rest to thousands of others, which reveals query plans that only
suit an average merchant. All transactions are final, so they have no jobs. Entries, timelines and
charges are omitted, because no measured request reads them.
"""

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence

import asyncpg
import msgspec

from bench import merchants, seed
from bench.merchants import Seeded
from bench.stage import Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.embedded.postgres import SUPERUSER
from manilla.kit.environment import Environment
from manilla.kit.ids import ALPHABET, OWNER_CHARACTERS, RANDOM_CHARACTERS
from manilla.kit.money import Money
from manilla.ledger.trx_ids import TRX_IDS
from manilla.merchants import wallets

SMALL, LARGE = 10_000, int(os.environ.get("MANILLA_BENCH_ROWS", "10000000"))
NOTIFIED = 200  # number of merchants that have notifications
OTHERS = 5_000
# An email address or account number occurs equally often in a short and in a long history.
PAYMENTS_OF_CUSTOMER, PAYOUTS_OF_ACCOUNT = 7, 8
AMOUNTS = 5_000

MERCHANTS = f"""
    INSERT INTO merchant (name, email, status, currencies, version)
    SELECT 'Shop ' || md5(n::text), 'shop' || n || '@example.com', 'approved', '{{NGN}}', n
      FROM generate_series(1, {OTHERS}) AS n"""


def _base32(number: str, characters: int) -> str:
    """Returns SQL that formats a number like `kit.ids.base32`."""
    shifts = range(5 * (characters - 1), -1, -5)
    digits = (
        f"substr('{ALPHABET}', 1 + ({number} >> {shift} & 31)::integer, 1)" for shift in shifts
    )
    return " || ".join(digits)


RANDOM_DIGITS = 6  # enough for 10⁹ rows
MILLISECONDS = "(extract(epoch FROM moment) * 1000)::bigint"
TRX_ID = f"""
    '{TRX_IDS.prefix}' || {_base32(MILLISECONDS, TRX_IDS.time_characters)}
    || {_base32("owner", OWNER_CHARACTERS)}
    || '{{digit}}{"0" * (RANDOM_CHARACTERS - RANDOM_DIGITS - 1)}'
    || {_base32("n", RANDOM_DIGITS)}"""
# One transaction per second, up to the current time.
NUMBERED = f"""
    (SELECT n, {{merchant}}::bigint + CASE WHEN n % 3 = 0 THEN 1 + n % {OTHERS} ELSE 0 END AS owner,
            now() - ({{number}} - n) * interval '1 second' AS moment
       FROM generate_series(1, {{number}}::bigint) AS n) AS numbered"""

PAYMENTS = f"""
    INSERT INTO payment (
           merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor,
           commission_minor, commission_bearer, description, customer_name, customer_email,
           ipn_url, success_redirect, cancel_redirect, allow_payment_methods, is_legacy,
           remarks, created_at, updated_at, expires_at)
    SELECT owner, {TRX_ID.format(digit=0)}, 'sandbox', 'order-' || md5(n::text), 'success', 'NGN',
           10000 + n * 37 % {AMOUNTS} * 100, 1500, 'customer', 'Two chairs and a table', 'Ada Obi',
           'customer' || n % ({{number}} / {PAYMENTS_OF_CUSTOMER}) || '@example.com',
           'https://shop.example/ipn', 'https://shop.example/thanks?order=7',
           'https://shop.example/cart', '{{{{}}}}', false,
           'SANDBOX_TRANSACTION', moment, moment, moment + interval '30 minutes'
      FROM {NUMBERED}"""
PAYOUTS = f"""
    INSERT INTO payout (
           merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor, fee_minor,
           method_id, method_code, method_name, provider, beneficiary, account_name, description,
           ipn_url, remarks, session_id, created_at, updated_at)
    SELECT owner, {TRX_ID.format(digit=1)}, 'sandbox', 'payout-' || md5(n::text), 'completed',
           'NGN', 10000 + n * 37 % {AMOUNTS} * 100, 1000, 6, 'providera_ngn_transfer',
           'Provider A bank transfer', 'providera',
           jsonb_build_object('bank_code', '058', 'account_number',
                              lpad((n % ({{number}} / {PAYOUTS_OF_ACCOUNT}))::text, 10, '0')),
           'SANDBOX BENEFICIARY', 'Two chairs and a table', 'https://shop.example/ipn',
           'SANDBOX_TRANSACTION', lpad(n::text, 30, '0'), moment, moment
      FROM {NUMBERED}"""
POSTINGS = """
    INSERT INTO posting (merchant_id, environment, currency, kind, trx_id, posted_at)
    SELECT merchant_id, environment, currency, 'payout', trx_id, created_at FROM payout"""
NOTIFICATIONS = f"""
    INSERT INTO notification (
           merchant_id, id, environment, trx_id, event, type, status, url, body, state, attempts,
           created_at, decided_at)
    SELECT {{notified}} + n % {NOTIFIED}, 'msg_H' || lpad(n::text, 24, '0'), 'sandbox',
           {TRX_ID.format(digit=1)}, 'payout', 'payout.completed', 'completed', 'https://shop.example/ipn',
           convert_to('{{{{"data":{{{{"amount":1000.00,"currency_code":"NGN"}}}},'
                      '"message":"Payout completed","status":"completed"}}}}', 'utf8'),
           'delivered', 1, moment, moment
      FROM {NUMBERED}"""


class History(msgspec.Struct, frozen=True):
    database: str
    number: int
    merchant: Seeded
    notified: Sequence[Seeded]


async def prepared(stage: Stage, number: int) -> History:
    """Returns the database with this many transactions. Each database is created once per run."""
    if number not in stage.histories:
        stage.histories[number] = await _create(stage, number)
    history: History = stage.histories[number]
    return history


async def _create(stage: Stage, number: int) -> History:
    database, server = f"history_{number}", stage.server
    print(f"creating a history of {number:,} ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    await server.add_database(database)
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    db = await Database.open(server.url(database), size=1, name="bench")
    try:
        merchant = await seed.product(db, keyring, stage.merchant.sandbox)
        money = Money(merchants.CURRENCY, merchants.BALANCE_MINOR)
        await wallets.fund(db, merchant.id, Environment.SANDBOX, money, "For the bench")
        notified = await merchants.add(db, keyring, NOTIFIED, Environment.SANDBOX)
    finally:
        await db.close()
    await server.execute(database, MERCHANTS)
    url = server.cluster.url(SUPERUSER, database)
    await fill_all(url, number, merchant.id, notified[0].id)
    await server.execute(database, "VACUUM (FREEZE, ANALYZE)")
    await server.execute(database, "CHECKPOINT")
    print(f"created in {time.monotonic() - began:.0f} seconds", file=sys.stderr, flush=True)
    return History(database, number, Seeded(merchant.id, stage.merchant.sandbox), notified)


async def fill_all(url: str, number: int, merchant_id: int, first_notified: int) -> None:
    names = {"number": number, "merchant": merchant_id, "notified": first_notified}
    await asyncio.gather(
        fill(url, {"payment": PAYMENTS.format(**names)}),
        fill(url, {"payout": PAYOUTS.format(**names), "posting": POSTINGS}),
        fill(url, {"notification": NOTIFICATIONS.format(**names)}),
    )


async def fill(url: str, inserts: Mapping[str, str]) -> None:
    """Fills tables as the superuser, with their triggers disabled.

    Indexes are built afterwards, which is faster.
    """
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "SET session_replication_role = replica; SET synchronous_commit = off;"
            "SET maintenance_work_mem = '512MB'"
        )
        for table, sql in inserts.items():
            indexes = await connection.fetch(
                """
                SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition
                  FROM pg_index
                 WHERE indrelid = $1::text::regclass
                   AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)""",
                table,
            )
            for index in indexes:
                await connection.execute(f"DROP INDEX {index['name']}")
            await connection.execute(sql)
            for index in indexes:
                await connection.execute(index["definition"])
    finally:
        await connection.close()
