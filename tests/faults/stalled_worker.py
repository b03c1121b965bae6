"""A worker that stalls at a chosen step of a payout and resumes on command."""

import asyncio
from enum import StrEnum
from typing import Any, cast

from manilla.kit.batch import Batcher
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, claims
from manilla.kit.jobs.runner import Runner
from manilla.payouts.tasks import PayoutTasks
from manilla.providers.port import (
    Adapter,
    Answer,
    Direction,
    Sent,
    TransferOrder,
    WebhookSubject,
)
from manilla.providers.rails import Rails
from manilla.services import Services
from manilla.transfers.sending import Mark
from tests.support.timeouts import TIMEOUT_SECONDS


async def end_lease(db: Database, trx_id: str) -> None:
    """Makes the job due and ends its lease, as if the lease had expired."""
    await db.execute(
        """
        UPDATE job SET due_at = now(), leased_until = now()
         WHERE kind = 'transfer' AND subject = $1""",
        trx_id,
    )


class Step(StrEnum):
    BEFORE_BEGIN = "before_begin"  # The worker has read the payout, but has saved nothing.
    BEFORE_SEND = "before_send"  # The worker has recorded the start, but has sent nothing.
    # The provider has responded, but the worker has not saved the response.
    BEFORE_SAVE = "before_save"


class StalledWorker:
    """A worker that claims the only due job and stalls at the given step."""

    def __init__(self, services: Services, step: Step) -> None:
        self._step = step
        self._reached = asyncio.Event()
        self._resumed = asyncio.Event()
        self._db = services.db
        tasks = PayoutTasks(
            services.db,
            services.platform,
            cast(Rails, _Rails(self, services.rails)),
            services.failover,
            services.deliveries,
            services.claims,
            services.delivered,
            services.base_url,
        )
        tasks.machine._mark = cast(Any, _Mark(self, tasks.machine._mark))
        self._runner = Runner(services.db, tasks.job_handlers())
        self._working: asyncio.Task[None] | None = None
        self.job: Job | None = None

    async def stall(self, *, lease_ends: bool = True) -> None:
        [self.job] = await claims.claim(self._db, {"transfer": 10})
        self._working = asyncio.create_task(self._runner._do(self.job))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await self._reached.wait()
        if lease_ends:
            await end_lease(self._db, self.job.subject)

    async def resume(self) -> None:
        assert self._working is not None
        self._resumed.set()
        await self._working

    async def at(self, step: Step) -> None:
        if step is self._step:
            self._reached.set()
            await self._resumed.wait()


class _Mark:
    """Stalls the worker, if a test requires it, before the transfer is marked as sent."""

    def __init__(self, worker: StalledWorker, mark: Batcher[Mark, bool]) -> None:
        self._worker = worker
        self._mark = mark

    async def submit(self, mark: Mark) -> bool:
        await self._worker.at(Step.BEFORE_BEGIN)
        return await self._mark.submit(mark)


class _Rails:
    def __init__(self, worker: StalledWorker, rails: Rails) -> None:
        self._worker = worker
        self._rails = rails

    def is_down(self, provider: str, direction: Direction) -> bool:
        return self._rails.is_down(provider, direction)

    def is_drained(self, provider: str) -> bool:
        return self._rails.is_drained(provider)

    async def state(self, kind: WebhookSubject, provider: str, reference: str) -> Answer[Any]:
        return await self._rails.state(kind, provider, reference)

    def adapter(self, provider: str) -> Any:
        adapter = self._rails.adapter(provider)
        assert adapter is not None
        return _Adapter(self._worker, adapter)


class _Adapter:
    def __init__(self, worker: StalledWorker, adapter: Adapter) -> None:
        self._worker = worker
        self._adapter = adapter

    def transfer_reference(self, trx_id: str) -> str:
        return self._adapter.transfer_reference(trx_id)

    async def send(self, order: TransferOrder) -> Answer[Sent]:
        await self._worker.at(Step.BEFORE_SEND)
        answer = await self._adapter.send(order)
        await self._worker.at(Step.BEFORE_SAVE)
        return answer
