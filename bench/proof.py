"""Measures the hash chain over postings and `manilla prove`: `python -m bench.proof`.

The database gets payments and delivered payouts with all their postings, entries, charges,
timelines and notifications, so that every check of the pack finds nothing.
"""

import argparse
import asyncio
import json
import resource
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench import cpu
from bench.history import fill
from bench.server import Server, private_server
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import NAME, SUPERUSER
from manilla.proofs import chain, verify
from manilla.proofs.archive import archiving

MERCHANTS = 1_000
EACH = "interval '10 ms'"  # the time between two transactions
PAID, SENT, FEE, PROVIDER_FEE = 30_000, 10_000, 1_000, 500
# A merchant's transactions are payments and payouts in turn.
# `place` is the transaction's position in the merchant's history, starting with 0.
MADE = f"""
    SELECT t, 1 + t % {MERCHANTS} AS merchant_id, t / {MERCHANTS} AS place,
           t / {MERCHANTS} % 2 = 0 AS is_payment, 'TXN' || lpad(t::text, 30, '0') AS trx_id,
           3 * t + 1 AS posting_id, timestamptz '{{moment}}' + t * {EACH} AS moment
      FROM generate_series({{first}}::bigint, {{last}}::bigint) AS t"""
# The wallet's balance after the transaction.
BALANCE = f"{PAID} * (place / 2 + 1) - {SENT + FEE} * ((place + 1) / 2)"

INSERTS = {
    "payment": f"""
        INSERT INTO payment (
               merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor,
               commission_minor, commission_bearer, description, customer_name, customer_email,
               ipn_url, success_redirect, cancel_redirect, allow_payment_methods, is_legacy,
               created_at, updated_at, expires_at, credited_charge)
        SELECT merchant_id, trx_id, 'production', 'order-' || t, 'success', 'NGN', {PAID}, 0,
               'customer', 'Two chairs and a table', 'Ada Obi', 'ada@example.com',
               'https://shop.example/ipn', 'https://shop.example/thanks',
               'https://shop.example/cart', '{{{{}}}}', false, moment, moment,
               moment + interval '30 minutes', trx_id || '-1'
          FROM ({MADE}) AS made WHERE is_payment""",
    "charge": f"""
        INSERT INTO charge (merchant_id, reference, trx_id, number, method_code, provider, currency,
                            amount_minor, status, paid_minor, created_at, updated_at)
        SELECT merchant_id, trx_id || '-1', trx_id, 1, 'providera-ngn', 'providera', 'NGN', {PAID},
               'paid', {PAID}, moment, moment
          FROM ({MADE}) AS made WHERE is_payment""",
    "payout": f"""
        INSERT INTO payout (
               merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor, fee_minor,
               method_id, method_code, method_name, provider, beneficiary, account_name,
               description, ipn_url, provider_fee_minor, began_at, created_at, updated_at)
        SELECT merchant_id, trx_id, 'production', 'payout-' || t, 'completed', 'NGN', {SENT}, {FEE},
               6, 'providera_ngn_transfer', 'Provider A bank transfer', 'providera',
               '{{{{"bank_code": "058", "account_number": "0123456789"}}}}', 'ADA OBI',
               'Two chairs and a table', 'https://shop.example/ipn', {PROVIDER_FEE}, moment, moment,
               moment
          FROM ({MADE}) AS made WHERE NOT is_payment""",
    "posting": f"""
        INSERT INTO posting (merchant_id, id, environment, currency, kind, trx_id, posted_at)
               OVERRIDING SYSTEM VALUE
        SELECT merchant_id, posting_id + number, 'production', 'NGN', kind,
               CASE WHEN kind = 'provider_fee' THEN trx_id || '-1' ELSE trx_id END, moment
          FROM ({MADE}) AS made
         CROSS JOIN LATERAL (VALUES
               (true, 0, 'payment'), (true, 1, 'provider_fee'),
               (false, 0, 'payout'), (false, 1, 'payout_delivered'),
               (false, 2, 'payout_provider_fee')) AS posted (of_payment, number, kind)
         WHERE of_payment = is_payment ORDER BY t, number""",
    "entry": f"""
        INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account,
                           amount_minor, balance_minor)
        SELECT merchant_id, posting_id + number, line, 'production', 'NGN', account, minor,
               CASE WHEN account = 'wallet' THEN {BALANCE} END
          FROM ({MADE}) AS made
         CROSS JOIN LATERAL (VALUES
               (true, 0, 1, 'wallet', {PAID}), (true, 0, 2, 'clearing:providera', -{PAID}),
               (true, 1, 2, 'clearing:providera', {PROVIDER_FEE}),
               (true, 1, 3, 'provider_fee:providera', -{PROVIDER_FEE}),
               (false, 0, 1, 'wallet', -{SENT + FEE}), (false, 0, 2, 'in_flight', {SENT}),
               (false, 0, 3, 'payout_fee', {FEE}),
               (false, 1, 2, 'in_flight', -{SENT}), (false, 1, 3, 'clearing:providera', {SENT}),
               (false, 2, 2, 'clearing:providera', {PROVIDER_FEE}),
               (false, 2, 3, 'provider_fee:providera', -{PROVIDER_FEE}))
               AS posted (of_payment, number, line, account, minor)
         WHERE of_payment = is_payment ORDER BY t, number, line""",
    "timeline": f"""
        INSERT INTO timeline (merchant_id, trx_id, number, at, event, from_status, to_status)
        SELECT merchant_id, trx_id, 1, moment,
               CASE WHEN is_payment THEN 'paid' ELSE 'delivered' END, 'pending',
               CASE WHEN is_payment THEN 'success' ELSE 'completed' END
          FROM ({MADE}) AS made""",
    "notification": f"""
        INSERT INTO notification (merchant_id, id, environment, trx_id, event, type, status, url,
                                  body, state, attempts, created_at, decided_at)
        SELECT merchant_id, 'msg_' || lpad(t::text, 24, '0'), 'production', trx_id,
               CASE WHEN is_payment THEN 'payment' ELSE 'payout' END,
               CASE WHEN is_payment THEN 'payment.success' ELSE 'payout.completed' END,
               'completed', 'https://shop.example/ipn', '{{{{}}}}', 'delivered', 1, moment, moment
          FROM ({MADE}) AS made""",
}
FINISH = """
    DELETE FROM wallet;
    INSERT INTO wallet (merchant_id, environment, currency, balance_minor)
    SELECT DISTINCT ON (merchant_id) merchant_id, 'production', 'NGN', balance_minor
      FROM entry WHERE account = 'wallet' ORDER BY merchant_id, posting_id DESC;
    SELECT setval('posting_id_seq', (SELECT max(id) FROM posting));
    DELETE FROM reported_balance;
    INSERT INTO reported_balance (provider, currency, day, balance_minor, ledger_minor, reported_at)
    SELECT 'providera', 'NGN', current_date, sum(-amount_minor), sum(-amount_minor), now()
      FROM entry WHERE account = 'clearing:providera'"""
MERCHANT_ROWS = f"""
    INSERT INTO merchant (name, email, status, currencies, version)
    SELECT 'Shop ' || n, 'shop@example.com', 'approved', '{{NGN}}', n
      FROM generate_series(1, {MERCHANTS}) AS n"""


async def load(server: Server, first: int, last: int, moment: str) -> None:
    """Adds the transactions with the numbers from `first` to `last`."""
    values = {"first": first, "last": last, "moment": moment}
    url = server.cluster.url(SUPERUSER, NAME)
    await fill(url, {table: sql.format(**values) for table, sql in INSERTS.items()})
    await server.execute(NAME, FINISH)
    await server.execute(NAME, "VACUUM (ANALYZE)")
    await server.execute(NAME, "CHECKPOINT")


async def measure_kept(folder: Path, transactions: int, rounds: int) -> None:
    """Measures packs of the database in a folder, which the first run with the folder creates."""
    async with private_server(folder) as server:
        if not await server.value("SELECT EXISTS (SELECT FROM posting)", NAME):
            await server.execute(NAME, MERCHANT_ROWS)
            moment: str = await server.value(f"SELECT (now() - {transactions} * {EACH})::text")
            await load(server, 0, transactions - 1, moment)
        db = await Database.open(server.url(), size=2, name="bench")
        await _extend(server, db, transactions)
        await db.close()
        full = await _prove(server, rounds)
        await _prove(server, rounds, "--seal", str(full / "seal.json"))
        await _verify(server, full, rounds)


async def measure(transactions: int, more: int, rounds: int) -> None:
    async with private_server() as server:
        await server.execute(NAME, MERCHANT_ROWS)
        moment: str = await server.value(f"SELECT (now() - {transactions + more} * {EACH})::text")
        began = time.monotonic()
        await load(server, 0, transactions - 1, moment)
        print(f"loaded {transactions:,} transactions in {time.monotonic() - began:.0f} s")
        db = await Database.open(server.url(), size=2, name="bench")
        await _extend(server, db, transactions)
        full = await _prove(server, rounds)
        await load(server, transactions, transactions + more - 1, moment)
        await _extend(server, db, more)
        await _prove(server, rounds, "--seal", str(full / "seal.json"))
        await _verify(server, full, rounds)
        await _archive(server, transactions + more)
        await db.close()


async def _extend(server: Server, db: Database, transactions: int) -> None:
    """Extends the chain and prints the CPU time of the worker and the database."""
    cost = Cost()
    with cost.measured(server):
        await chain.extend(db)
    each = f"{cost.cpu_seconds[0] / transactions * 1_000_000:.1f} µs of CPU time each"
    print(f"link {transactions:,} transactions: {cost}, {each}", flush=True)


async def _prove(server: Server, rounds: int, *options: str) -> Path:
    """Writes packs and prints the medians. Returns the folder of the last pack."""
    url, cost = server.cluster.url(postgres.APPLICATION), Cost()
    for number in range(rounds):
        out = server.folder / f"pack{len(options)}-{number}"
        shutil.rmtree(out, ignore_errors=True)  # from an earlier run with the same folder
        words = ["prove", "--out", str(out), "--json", "--database-url", url, *options]
        with cost.measured(server):
            printed = json.loads(await _run("-m", "manilla", *words))
        assert printed["ok"], printed
    report = json.loads((out / "report.json").read_text())
    print(f"prove {' '.join(options[:1])}: {cost}", flush=True)
    print(f"  {report['postings_verified']:,} postings, {report['entries_verified']:,} entries")
    return out


async def _verify(server: Server, pack: Path, rounds: int) -> None:
    url, cost = server.cluster.url(postgres.APPLICATION), Cost()
    for _ in range(rounds):
        with cost.measured(server):
            printed = await _run(str(pack / "verify.py"), url)
    print(f"verify.py: {cost}\n{printed}", flush=True)


async def _archive(server: Server, transactions: int) -> None:
    """Moves all transactions to the archive, and verifies the ledger with the archive."""
    folder, cost = server.folder / "archive", Cost()
    owner = await Database.open(server.cluster.url(postgres.OWNER), size=2, name="bench")
    with cost.measured(server):
        until = datetime.now(UTC) + timedelta(days=62)
        results = [result async for result in archiving.run(owner, folder, until)]
    assert sum(result.removed for result in results) == transactions, results
    await owner.close()
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    each = f"{cost.cpu_seconds[0] / transactions * 1_000_000:.0f} µs of CPU time"
    print(f"archive: {cost}, {each} and {size / transactions:.0f} bytes of files each")
    verified = await verify.run(server.cluster.url(postgres.APPLICATION), [], None, folder)
    assert verified.is_sound, verified.findings
    print(f"  {verified.postings:,} postings, {verified.entries:,} entries verified", flush=True)


class Cost:
    """Durations, and the CPU time of this process, its children and the server."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []

    @contextmanager
    def measured(self, server: Server) -> Iterator[None]:
        began, used = time.monotonic(), _used_seconds(server)
        yield
        self.seconds.append(time.monotonic() - began)
        self.cpu_seconds.append(_used_seconds(server) - used)

    def __str__(self) -> str:
        each = ", ".join(f"{seconds:.1f}" for seconds in self.seconds)
        median, used = statistics.median(self.seconds), statistics.median(self.cpu_seconds)
        return f"{median:.1f} s (median of {each}), {used:.1f} s of CPU time"


def _used_seconds(server: Server) -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = time.process_time() + children.ru_utime + children.ru_stime
    return own + cpu.of_server(server.postmaster)


async def _run(*words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.proof", description=__doc__)
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--more", type=int, default=10_000, help="transactions after the seal")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="the folder of a database that is not removed")
    options = parser.parse_args()
    if options.folder is None:
        asyncio.run(measure(options.transactions, options.more, options.rounds))
    else:
        asyncio.run(measure_kept(options.folder, options.transactions, options.rounds))
