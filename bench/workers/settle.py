"""Runs single steps as Manilla does: completes payouts, credits payments, offers settlements."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import uvloop

from bench.frame import Work
from manilla import wiring
from manilla.kit import logs
from manilla.kit.database.rows import columns
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.payments.batch_credit import CreditedPayments
from manilla.payments.payment import Charge
from manilla.payments.tasks import CHECKS_AT_ONCE
from manilla.payouts import store
from manilla.payouts.tasks import CONCURRENCY
from manilla.proofs import proofs
from manilla.providers.port import ChargeState, ReportedChargeStatus
from manilla.services import Services
from manilla.settings import Mode, Settings
from manilla.settlements import plans
from manilla.transfers.events import Source, TransferEvent, TransferResult
from manilla.worker import CONNECTIONS

CHECK_SECONDS = 3600
DELIVERED = TransferResult(TransferEvent.DELIVERED, Source.STATUS_QUERY)


class Order(msgspec.Struct, frozen=True):
    step: str
    seconds: float
    merchant_id: int = 0


async def deliver(services: Services, order: Order) -> int:
    """Loads and completes pending payouts that the provider has delivered."""
    keys = await services.db.records(
        """
        SELECT merchant_id, trx_id FROM payout
         WHERE (status || '') = 'pending' AND environment = 'production' LIMIT 5000"""
    )
    assert keys, "too few payouts were created"
    until, done = time.monotonic() + order.seconds, 0

    async def complete() -> None:
        nonlocal done
        while keys and time.monotonic() < until:
            payout = await store.payout(services.db, *keys.pop())
            assert payout is not None
            assert await services.delivered.complete(payout, DELIVERED)
            done += 1

    await asyncio.gather(*(complete() for _ in range(CONCURRENCY)))
    return done


async def credit(services: Services, order: Order) -> int:
    """Credits charges that the provider reports as paid."""
    charges = await services.db.rows(
        Charge,
        f"SELECT {columns(Charge)} FROM charge"
        " WHERE status = 'open' AND $1::bigint IN (0, merchant_id) LIMIT 5000",
        order.merchant_id,
    )
    assert charges, "too few charges were created"
    credited = CreditedPayments(services.db)
    until, done = time.monotonic() + order.seconds, 0

    async def settle() -> None:
        nonlocal done
        while charges and time.monotonic() < until:
            charge = charges.pop()
            paid = ChargeState(ReportedChargeStatus.PAID, charge.amount)
            assert await credited.credit(charge, paid)
            done += 1

    await asyncio.gather(*(settle() for _ in range(CHECKS_AT_ONCE)))
    return done


async def offer(services: Services, order: Order) -> int:
    """Computes how much of the merchant's balance can be settled."""
    tenant = Tenant(order.merchant_id, Environment.SANDBOX)
    until, done = time.monotonic() + order.seconds, 0
    while time.monotonic() < until:
        plan = await plans.find(services.db, tenant, "NGN")
        await services.settling.offers.find(plan)
        done += 1
    return done


async def check(services: Services, order: Order) -> int:
    """Checks the whole ledger at least once, and returns how many transactions were checked."""
    until, checks = time.monotonic() + order.seconds, 0
    while not checks or time.monotonic() < until:
        broken = [each for each in await proofs.check(services.db) if each.count]
        assert not broken, broken
        checks += 1
    transactions = "SELECT (SELECT count(*) FROM payment) + count(*) FROM payout"
    return checks * await services.db.number(transactions)


STEPS: Mapping[str, Callable[[Services, Order], Awaitable[int]]] = {
    "deliver": deliver,
    "credit": credit,
    "offer": offer,
    "check": check,
}


async def main() -> None:
    settings = Settings.read(os.environ, assumed_mode=Mode.DEVELOPMENT)
    async with wiring.open_services(
        settings, name="bench", connections=CONNECTIONS, statement_seconds=CHECK_SECONDS
    ) as services:
        print("{}", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = msgspec.json.decode(line, type=Order)
            began = time.monotonic()
            done = await STEPS[order.step](services, order)
            work = Work(done, time.monotonic() - began)
            print(msgspec.json.encode(work).decode(), flush=True)


if __name__ == "__main__":
    logs.configure("bench")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
