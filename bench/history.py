"""Databases with a long history of payments, payouts and delivered notifications.

`MANILLA_BENCH_ROWS` sets the number of payments, and of payouts, in the larger database. Two thirds
of the transactions belong to the measured merchant and the rest to thousands of others, which
reveals query plans that only suit an average merchant. All transactions are final, so they have no
jobs. The ledger is complete: `manilla ledger check` finds no violation.
"""

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import asyncpg
import msgspec

from bench import merchants, seed
from bench.merchants import Seeded
from bench.stage import Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.embedded.postgres import SUPERUSER
from manilla.kit.environment import Environment
from manilla.kit.ids import ALPHABET, OWNER_CHARACTERS, RANDOM_CHARACTERS, TimedIds
from manilla.kit.money import Money
from manilla.ledger.trx_ids import TRX_IDS
from manilla.merchants import wallets
from manilla.notify.notification_ids import NOTIFICATION_IDS

SMALL, LARGE = 10_000, int(os.environ.get("MANILLA_BENCH_ROWS", "5000000"))
NOTIFIED = 200  # number of merchants whose notifications are delivered in the benchmark
OTHERS = 5_000
# An email address or account number occurs equally often in a short and in a long history.
PAYMENTS_OF_CUSTOMER, PAYOUTS_OF_ACCOUNT = 7, 8
AMOUNTS = 5_000
FEE = 1_000

# The merchants whose notifications are delivered already have a wallet.
MERCHANTS = f"""
    INSERT INTO merchant (name, email, status, currencies, version)
    SELECT 'Shop ' || md5(n::text), 'shop' || n || '@example.com', 'approved', '{{NGN}}', n
      FROM generate_series(1, {OTHERS}) AS n;
    INSERT INTO wallet (merchant_id, environment, currency)
    SELECT id, 'sandbox', 'NGN' FROM merchant
        ON CONFLICT DO NOTHING"""


def _base32(number: str, characters: int) -> str:
    """Returns SQL that formats a number like `kit.ids.base32`."""
    shifts = range(5 * (characters - 1), -1, -5)
    digits = (
        f"substr('{ALPHABET}', 1 + ({number} >> {shift} & 31)::integer, 1)" for shift in shifts
    )
    return " || ".join(digits)


RANDOM_DIGITS = 6  # enough for 10⁹ rows


def _time(kind: TimedIds) -> str:
    """Returns SQL for the prefix and the time of an id."""
    moment = f"((extract(epoch FROM moment) * 1000000)::bigint / {kind.unit_microseconds})"
    return f"'{kind.prefix}' || {_base32(moment, kind.time_characters)}"


# An id is its time, its owner, a digit that distinguishes payments and payouts, and the number.
PARTS = f"""
           {_time(TRX_IDS)} AS trx_time,
           {_time(NOTIFICATION_IDS)} AS notification_time,
           {_base32("owner", OWNER_CHARACTERS)} AS of_owner,
           '{"0" * (RANDOM_CHARACTERS - RANDOM_DIGITS - 1)}' || {_base32("n", RANDOM_DIGITS)}
           AS number"""
# All tables are filled from this one, so that each id is computed only once. There is one payment
# per second, up to the current time. Its payout takes the same amount from the wallet.
NUMBERED = f"""
    CREATE SCHEMA loading;
    CREATE UNLOGGED TABLE loading.numbered AS
    SELECT n, owner, moment, 11000 + n * 37 % {AMOUNTS} * 100 AS minor,
           {{first_posting}} + 3 * n AS posting_id,
           trx_time || of_owner || '0' || number AS payment_id,
           trx_time || of_owner || '1' || number AS payout_id,
           notification_time || of_owner || '0' || number AS payment_notification_id,
           notification_time || of_owner || '1' || number AS payout_notification_id
      FROM (SELECT n, owner, moment, {PARTS}
              FROM (SELECT n, {{merchant}}::bigint
                           + CASE WHEN n % 3 = 0 THEN 1 + n % {OTHERS} ELSE 0 END AS owner,
                           timestamptz '{{now}}' - ({{number}} - n) * interval '1 second' AS moment
                      FROM generate_series(1, {{number}}::bigint) AS n) AS owned
            OFFSET 0) AS parts;
    -- The type is that of `entry.account`, so that the accounts are not checked once per row.
    -- An amount is a multiple of the payment's amount plus a multiple of the fee.
    CREATE UNLOGGED TABLE loading.line (
        place integer, line integer, account ledger_account, times integer, fees integer,
        left_times integer);
    INSERT INTO loading.line VALUES
           (0, 1, 'wallet', 1, 0, 1), (0, 2, 'clearing:providera', -1, 0, NULL),
           (1, 1, 'wallet', -1, 0, 0), (1, 2, 'in_flight', 1, -1, NULL),
           (1, 3, 'payout_fee', 0, 1, NULL), (2, 2, 'in_flight', -1, 1, NULL),
           (2, 3, 'clearing:providera', 1, -1, NULL);
    ANALYZE loading.numbered, loading.line"""

PAYMENTS = f"""
    INSERT INTO payment (
           merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor,
           commission_minor, commission_bearer, description, customer_name, customer_email,
           ipn_url, success_redirect, cancel_redirect, allow_payment_methods, is_legacy,
           remarks, created_at, updated_at, expires_at)
    SELECT owner, payment_id, 'sandbox', 'order-' || md5(n::text), 'success', 'NGN',
           minor, 0, 'customer', 'Two chairs and a table', 'Ada Obi',
           'customer' || n % ({{number}} / {PAYMENTS_OF_CUSTOMER}) || '@example.com',
           'https://shop.example/ipn', 'https://shop.example/thanks?order=7',
           'https://shop.example/cart', '{{{{}}}}', false,
           'SANDBOX_TRANSACTION', moment, moment, moment + interval '30 minutes'
      FROM loading.numbered"""
PAYOUTS = f"""
    INSERT INTO payout (
           merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor, fee_minor,
           method_id, method_code, method_name, provider, beneficiary, account_name, description,
           ipn_url, remarks, session_id, provider_reference, began_at, accepted_at, accepted_note,
           created_at, updated_at)
    SELECT owner, payout_id, 'sandbox', 'payout-' || md5(n::text), 'completed',
           'NGN', minor - {FEE}, {FEE}, 6, 'providera_ngn_transfer',
           'Provider A bank transfer', 'providera',
           jsonb_build_object('bank_code', '058', 'account_number',
                              lpad((n % ({{number}} / {PAYOUTS_OF_ACCOUNT}))::text, 10, '0')),
           'SANDBOX BENEFICIARY', 'Two chairs and a table', 'https://shop.example/ipn',
           'SANDBOX_TRANSACTION', lpad(n::text, 30, '0'), 'TRF_' || md5(n::text), moment, moment,
           'To SANDBOX BENEFICIARY, bank 058, account …6789.', moment, moment
      FROM loading.numbered"""
# Each number has three postings: of the payment, of the payout, and of its delivery.
POSTINGS = """
    INSERT INTO posting (merchant_id, id, environment, currency, kind, trx_id, posted_at)
           OVERRIDING SYSTEM VALUE
    SELECT owner, posting_id + place, 'sandbox', 'NGN', kind,
           CASE kind WHEN 'payment' THEN payment_id ELSE payout_id END, moment
      FROM loading.numbered
     CROSS JOIN (VALUES (0, 'payment'), (1, 'payout'), (2, 'payout_delivered'))
           AS posted (place, kind)"""
ENTRIES = f"""
    INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account, amount_minor,
                       balance_minor)
    SELECT owner, posting_id + place, line, 'sandbox', 'NGN', account,
           times * minor + fees * {FEE}, wallet.balance_minor + left_times * minor
      FROM loading.numbered
     CROSS JOIN loading.line
      JOIN wallet ON wallet.merchant_id = owner AND wallet.environment = 'sandbox'"""
# Each number has two transactions that have ended.
TIMELINE = """
    INSERT INTO timeline (merchant_id, trx_id, number, at, event, from_status, to_status)
    SELECT owner, CASE step WHEN 'paid' THEN payment_id ELSE payout_id END, 1, moment, step,
           'pending', ended.status
      FROM loading.numbered
     CROSS JOIN (VALUES ('paid', 'success'), ('delivered', 'completed')) AS ended (step, status)"""
NOTIFICATIONS = """
    INSERT INTO notification (
           merchant_id, id, environment, trx_id, event, type, status, url, body, state, attempts,
           created_at, decided_at)
    SELECT owner, CASE event WHEN 'payment' THEN payment_notification_id
                             ELSE payout_notification_id END, 'sandbox',
           CASE event WHEN 'payment' THEN payment_id ELSE payout_id END, event, type, 'completed',
           'https://shop.example/ipn', body, 'delivered', 1, moment, moment
      FROM loading.numbered
     CROSS JOIN (VALUES ('payment', 'payment.success'), ('payout', 'payout.completed'))
           AS ended (event, type)
     CROSS JOIN (SELECT convert_to('{{"data":{{"amount":1000.00,"currency_code":"NGN"}},'
                                   '"message":"Payout completed","status":"completed"}}', 'utf8')
                        AS body) AS sent"""
# The largest tables first, so that both connections end at about the same time.
FILLED = {
    "entry": ENTRIES,
    "notification": NOTIFICATIONS,
    "payout": PAYOUTS,
    "payment": PAYMENTS,
    "posting": POSTINGS,
    "timeline": TIMELINE,
}
CONNECTIONS = 2

FINISH = "SELECT setval('posting_id_seq', (SELECT max(id) FROM posting))"


class History(msgspec.Struct, frozen=True):
    database: str
    number: int
    merchant: Seeded
    notified: Sequence[Seeded]


# What an earlier run left in a history and the next run would process.
UNDELIVERED = """
    DELETE FROM job WHERE kind = 'notify';
    UPDATE notification SET state = 'delivered', decided_at = now() WHERE state = 'waiting'"""


async def prepared(stage: Stage, number: int) -> History:
    """Returns the database with this many transactions. Each database is created once per run.

    A long history in a kept folder is used again. A short one is not, because the transactions that
    each run adds would make it much longer.
    """
    if number not in stage.histories:
        file = stage.server.folder / f"history_{number}.json"
        if number > SMALL and file.exists():
            stage.histories[number] = await _kept(stage, file.read_bytes())
        else:
            stage.histories[number] = await _create(stage, number)
            file.write_bytes(msgspec.json.encode(stage.histories[number]))
    history: History = stage.histories[number]
    return history


async def _kept(stage: Stage, stored: bytes) -> History:
    """Returns a history of an earlier run, with new merchants whose notifications are delivered."""
    past = msgspec.json.decode(stored, type=History)
    await stage.server.execute(past.database, UNDELIVERED)
    await stage.server.execute(past.database, "VACUUM (ANALYZE) job")
    db = await Database.open(stage.server.url(past.database), size=1, name="bench")
    try:
        keyring = Keyring([crypto.decode_key(stage.master_key)])
        notified = await merchants.add(db, keyring, NOTIFIED, Environment.SANDBOX)
    finally:
        await db.close()
    return msgspec.structs.replace(past, notified=notified)


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
    first_posting: int = await server.value("SELECT max(id) FROM posting", database)
    async with server.loading():
        await fill_all(url, number, merchant.id, first_posting)
        await server.execute(database, FINISH)
        await server.execute(database, "VACUUM (FREEZE, ANALYZE)")
    print(f"created in {time.monotonic() - began:.0f} seconds", file=sys.stderr, flush=True)
    return History(database, number, Seeded(merchant.id, stage.merchant.sandbox), notified)


async def fill_all(url: str, number: int, merchant_id: int, first_posting: int) -> None:
    names = {
        "number": number,
        "merchant": merchant_id,
        "first_posting": first_posting,
        "now": datetime.now(UTC).isoformat(),
    }
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(NUMBERED.format(**names))
        waiting = list(FILLED.items())

        async def fill_next() -> None:
            while waiting:
                table, sql = waiting.pop(0)
                await fill(url, {table: sql.format(**names)})

        await asyncio.gather(*(fill_next() for _ in range(CONNECTIONS)))
        await connection.execute("DROP SCHEMA loading CASCADE")
    finally:
        await connection.close()


INDEXES = """
    SELECT CASE WHEN c.oid IS NULL THEN format('DROP INDEX %s', x.indexrelid::regclass)
                ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', x.indrelid::regclass, c.conname)
           END AS drop,
           CASE WHEN c.oid IS NULL THEN pg_get_indexdef(x.indexrelid)
                ELSE format('ALTER TABLE %s ADD CONSTRAINT %I %s', x.indrelid::regclass, c.conname,
                            pg_get_constraintdef(c.oid))
           END AS create
      FROM pg_index x
      LEFT JOIN pg_constraint c ON c.conindid = x.indexrelid AND c.contype IN ('p', 'u')
     WHERE x.indrelid = $1::text::regclass"""


async def fill(url: str, inserts: Mapping[str, str]) -> None:
    """Fills tables as the superuser, with their triggers disabled.

    Indexes are built afterwards, which is faster.
    """
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "SET session_replication_role = replica; SET synchronous_commit = off;"
            "SET maintenance_work_mem = '1GB'; SET max_parallel_maintenance_workers = 0"
        )
        for table, sql in inserts.items():
            began = time.monotonic()
            definitions = await connection.fetch(INDEXES, table)
            for each in definitions:
                await connection.execute(each["drop"])
            await connection.execute(sql)
            for each in definitions:
                await connection.execute(each["create"])
            print(f"filled {table}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    finally:
        await connection.close()
