"""A merchant with users, a mail server, and a worker that sends the users' emails."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit.jobs.runner import Runner
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.mail.transport import Transport
from manilla.services import Services
from manilla.worker import job_handlers as all_works
from tests.support.timeouts import TIMEOUT_SECONDS

FAILED_PAYOUT = {
    "merchant": "Ada Stores",
    "what": "failed",
    "amount": "₦1,000.00",
    "beneficiary": "Bola Ade, GTBank",
    "reference": "order-1",
    "trx_id": "TXN1",
    "reason": "The account is closed.",
}


async def put_failed_payout(
    services: Services, merchant_id: int, reference: str = "order-1"
) -> None:
    async with services.db.transaction() as connection:
        await outbox.put(
            connection,
            MailKind.PAYOUT_FAILED,
            {**FAILED_PAYOUT, "reference": reference},
            path="/dashboard/production/payouts/TXN1",
            merchant_id=merchant_id,
        )


@contextlib.asynccontextmanager
async def worker(
    services: Services, transport: Transport | None, *, is_development: bool = False
) -> AsyncIterator[None]:
    """Runs the jobs that send emails, as the worker process does."""
    sending = msgspec.structs.replace(
        services, mail_transport=transport, is_development=is_development
    )
    kinds = (JobKind.MAIL, JobKind.RECEIPT_MAIL)
    works = {kind: work for kind, work in all_works(sending).items() if kind in kinds}
    stop = asyncio.Event()
    running = asyncio.create_task(Runner(services.db, works).run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await check():
            await asyncio.sleep(0.05)


async def states(services: Services, merchant_id: int) -> list[tuple[str, int, str | None]]:
    """Returns the state, attempts and last error of each email of the merchant."""
    rows = await services.db.records(
        "SELECT state, attempts, last_error FROM mail WHERE merchant_id = $1 ORDER BY id",
        merchant_id,
    )
    return [(row["state"], row["attempts"], row["last_error"]) for row in rows]


async def until_states(services: Services, merchant_id: int, *wanted: tuple[str, int]) -> None:
    async def check() -> bool:
        return [each[:2] for each in await states(services, merchant_id)] == list(wanted)

    await until(check)


async def make_due(services: Services, merchant_id: int) -> None:
    await services.db.execute(
        "UPDATE job SET due_at = now() WHERE merchant_id = $1 AND kind LIKE 'mail%'", merchant_id
    )
