"""A signed `POST /api/v1/initiate-payout`, with a thousand wallets and with one wallet."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime

import msgspec

from bench import floor, merchants, worker
from bench.comparisons import against_baseline, database_cpu_against_pgbench, rate_against_pgbench
from bench.frame import BASELINE, PRODUCT, Comparison, Contender, Row, Target, Work
from bench.load import ask, load
from bench.merchants import Seeded
from bench.pgbench import Script
from bench.rows.initiate_payment import overheard
from bench.seed import NO_LIMIT
from bench.signed import new_reference, signed
from bench.stage import BASELINE_PYTHON, Served, Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger.transactions import SANDBOX_REMARK
from manilla.methods import catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts.initiate import COMPLETE_IN_SANDBOX, SEND, PayoutItem
from manilla.payouts.payout import NewPayout

# Sends requests to a port for a number of seconds.
Sender = Callable[[int, Iterator[bytes], float], Awaitable[Work]]

PATH = "/api/v1/initiate-payout"
CALLERS = 64
MERCHANTS = 1000
MANY_RATE_MIN = 0.5
ONE_RATE_MIN = 1.0
BASELINE_TIMES_MIN = 10

METHOD, PROVIDER = "providera_ngn_transfer", "providera"
AMOUNT, FEE, CURRENCY = 1000, 10, "NGN"
BANK_CODE, ACCOUNT_NUMBER, ACCOUNT_NAME = "058", "0123456789", "SANDBOX BENEFICIARY"

# Each call passes one item directly to the SQL function. Each merchant has a separate rate-limit
# bucket, as in Manilla. A rejected call divides by zero, which ends pgbench. The rate window never
# ends, so its count is the number of pgbench's calls.
MERCHANT, BUCKET, REFERENCE, TRX_ID = 987654321, "<bucket>", "<reference>", "<trx_id>"
PGBENCH_BUCKETS = "pgbench:"
ONE_BY_ONE = """\
\\set merchant random(:first, :last)
SELECT 1 / (outcome = 'created')::integer
  FROM payout_initiate(
       (:before_reference::text || gen_random_uuid()::text || :before_merchant::text
        || :merchant::text || :before_trx::text || uuidv7()::text || :before_bucket::text
        || :buckets::text || :merchant::text || :rest::text)::jsonb,
       '1 day');
"""


def many_wallets(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return _opened(
        stage,
        "initiate-payout-many",
        MERCHANTS,
        Target(MANY_RATE_MIN),
        Target(BASELINE_TIMES_MIN),
        above_floor=floor.against_floor(0.40, 1.2, 1.1),
    )


def one_wallet(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return _opened(
        stage,
        "initiate-payout-one",
        1,
        Target(ONE_RATE_MIN),
        None,
        above_floor=floor.against_floor(0.9),
    )


@asynccontextmanager
async def _opened(
    stage: Stage,
    name: str,
    number: int,
    rate: Target,
    times: Target | None,
    above_floor: Sequence[Comparison],
) -> AsyncIterator[Row]:
    product, baseline = await asyncio.gather(stage.product(), stage.baseline())
    seeded, method = await funded_merchants(stage, number)
    await _tell_baseline(stage, seeded, method)
    await _check_same_answer(seeded, method, product, baseline)
    for served in (product, baseline):
        await ask_once_for_each(served, seeded, method)
    script = await one_by_one(seeded[0].id, method, number)
    async with stage.pgbench.started(script) as pgbench, floor.started(stage, number) as least:
        yield Row(
            name=name,
            title=f"wallets: {number:,}",
            contenders=[
                orders(PRODUCT, product, seeded, method),
                pgbench,
                least,
                orders(BASELINE, baseline, seeded, method),
            ],
            comparisons=[
                rate_against_pgbench(rate),
                database_cpu_against_pgbench(),
                *above_floor,
                *against_baseline(times),
            ],
        )


async def funded_merchants(stage: Stage, number: int) -> tuple[list[Seeded], Method]:
    """Creates funded merchants and returns them with the withdrawal method of their payouts."""
    method = await charged_method(stage.db)
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    return await merchants.add(stage.db, keyring, number, Environment.SANDBOX), method


async def ask_once_for_each(served: Served, seeded: Sequence[Seeded], method: Method) -> None:
    """Sends one request per merchant, which makes Manilla cache all the merchants."""
    requests = (_order(merchant, method) for merchant in seeded)
    await load(served.port, requests, CALLERS, 60)


async def by_callers(port: int, requests: Iterator[bytes], seconds: float) -> Work:
    return await load(port, requests, CALLERS, seconds)


def orders(
    name: str, served: Served, seeded: Sequence[Seeded], method: Method, send: Sender = by_callers
) -> Contender:
    async def run(seconds: float) -> Work:
        return await send(served.port, _orders(seeded, method), seconds)

    return Contender(name, run, served.pid)


async def charged_method(db: Database) -> Method:
    """Creates a withdrawal method with a fee, which gives each payout three ledger entries."""
    change = catalogue.MethodUpdate(fee_fixed=str(FEE))
    return await catalogue.change(db, MethodKind.WITHDRAW, METHOD, change)


async def one_by_one(first_merchant: int, method: Method, number: int = 1) -> Script:
    parts = await parts_of_item(Environment.SANDBOX, method)
    names = ("before_reference", "before_merchant", "before_trx", "before_bucket", "rest")
    return Script(
        ONE_BY_ONE,
        count=f"""
            SELECT coalesce(sum(used), 0)::bigint FROM rate_window
             WHERE bucket LIKE '{PGBENCH_BUCKETS}%'""",
        variables={
            "first": str(first_merchant),
            "last": str(first_merchant + number - 1),
            "buckets": PGBENCH_BUCKETS,
            **dict(zip(names, parts, strict=True)),
        },
    )


async def parts_of_item(environment: Environment, method: Method) -> list[str]:
    """Returns the JSON that Manilla passes to the SQL function, split at its variable values."""
    text = await overheard("payout_initiate", _payout(environment, method), _item(environment))
    return re.split(f"{REFERENCE}|{MERCHANT}|{TRX_ID}|{BUCKET}", text)


def _payout(environment: Environment, method: Method) -> NewPayout:
    """Builds the payout that Manilla creates from a benchmark request."""
    return NewPayout(
        merchant_id=MERCHANT,
        trx_id=TRX_ID,
        environment=environment,
        ref_trx=REFERENCE,
        currency=CURRENCY,
        amount_minor=AMOUNT * 100,
        fee_minor=FEE * 100,
        method_id=method.id,
        method_code=method.code,
        method_name=method.name,
        provider=method.provider,
        beneficiary={"bank_code": BANK_CODE, "account_number": ACCOUNT_NUMBER},
        account_name=ACCOUNT_NAME,
        description="Two chairs and a table",
        ipn_url="https://shop.example/ipn",
        remarks=SANDBOX_REMARK if environment is Environment.SANDBOX else None,
        created_at=datetime.now(UTC),
    )


def _item(environment: Environment) -> PayoutItem:
    is_sandbox = environment is Environment.SANDBOX
    return PayoutItem(
        bucket=BUCKET,
        rate_limit=int(NO_LIMIT),
        accepted=f"To {ACCOUNT_NAME}, bank {BANK_CODE}, account …{ACCOUNT_NUMBER[-4:]}.",
        job_kind=COMPLETE_IN_SANDBOX if is_sandbox else SEND,
        due_in_seconds=5 if is_sandbox else 0,
    )


def _orders(seeded: Sequence[Seeded], method: Method) -> Iterator[bytes]:
    """Yields requests of randomly chosen merchants, with unique references."""
    while True:
        yield _order(random.choice(seeded), method)


def _order(merchant: Seeded, method: Method) -> bytes:
    body = (
        f'{{"payout_amount":{AMOUNT},"currency_code":"{CURRENCY}","ref_trx":"{new_reference()}",'
        f'"ipn_url":"https://shop.example/ipn","withdraw_method_id":{method.id},'
        f'"beneficiary":{{"bank_code":"{BANK_CODE}","account_number":"{ACCOUNT_NUMBER}"}},'
        '"description":"Two chairs and a table"}'
    )
    return signed(merchant.credentials, "POST", PATH, body.encode())


async def _tell_baseline(stage: Stage, seeded: Sequence[Seeded], method: Method) -> None:
    wanted = {
        "name": merchants.NAME,
        "method": {"id": method.id, "code": method.code, "name": method.name},
        "provider": PROVIDER,
        "min_minor": method.min_minor,
        "max_minor": method.max_minor,
        "fee_fixed_minor": method.fee.fixed_minor,
        "balance_minor": merchants.BALANCE_MINOR,
        "merchants": [
            {"id": each.id, **msgspec.structs.asdict(each.credentials)} for each in seeded
        ],
    }
    async with worker.started(
        "baseline.seed_payouts", stage.baseline_environment(), str(BASELINE_PYTHON)
    ) as seeder:
        await seeder.contender("seed", wanted).run(0)


async def _check_same_answer(seeded: Sequence[Seeded], method: Method, *contenders: Served) -> None:
    """Checks that all contenders return the same method, fee and amounts."""
    infos = []
    for served in contenders:
        answer = msgspec.json.decode(await ask(served.port, _order(seeded[0], method)))
        assert answer["trx_id"] == answer["info"]["trx_id"]
        infos.append({**answer["info"], "ref_trx": None, "trx_id": None})
    assert infos[0] == infos[1], f"The responses differ: {infos}"
