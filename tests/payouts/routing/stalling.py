"""Workers that stall at a chosen step of a payout and resume on command."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextvars import ContextVar
from typing import Any, cast

from manilla.banks.nigeria import NigerianBank
from manilla.kit.jobs import Job
from manilla.kit.jobs.runner import Runner
from manilla.payouts.failover import Failover
from manilla.payouts.payout import Payout
from manilla.payouts.tasks import PayoutTasks
from manilla.routing.router import HoldPlace, PayoutRoute, PayoutTarget, Router
from manilla.services import Services
from manilla.transfers.events import ProviderAnswer, TransferResult
from tests.support.timeouts import TIMEOUT_SECONDS

AFTER_FIND = "after_find"  # The worker has read the payout.
BEFORE_SEND = "before_send"  # The worker has recorded that it is about to send.
AFTER_SEND = "after_send"  # the rail has responded
AFTER_ROUTE = "after_route"  # The worker has chosen the next rail.
BEFORE_SETTLE = "before_settle"
STEPS = (AFTER_FIND, BEFORE_SEND, AFTER_SEND, AFTER_ROUTE, BEFORE_SETTLE)


class Gate:
    """A gate at one step. One worker stalls there until the test opens the gate."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()


_gate: ContextVar[Gate | None] = ContextVar("gate", default=None)


async def _at(step: str) -> None:
    gate = _gate.get()
    if gate is not None and gate.step == step:
        gate.reached.set()
        await gate.opened.wait()


class StallingTasks(PayoutTasks):
    """The payout jobs, with additional steps at which a worker can stall."""

    async def find(self, job: Job) -> Payout | None:
        found = await super().find(job)
        await _at(AFTER_FIND)
        return found

    async def complete(self, payout: Payout, event: TransferResult) -> bool:
        await _at(BEFORE_SETTLE)
        return await super().complete(payout, event)

    async def apply_result(
        self, payout: Payout, event: TransferResult, *, holder: Job | None = None
    ) -> bool:
        await _at(BEFORE_SETTLE)
        return await super().apply_result(payout, event, holder=holder)


class _StallingSend:
    """Stalls a worker before and after the call to the rail."""

    def __init__(self, send: Callable[..., Awaitable[ProviderAnswer]]) -> None:
        self._send = send

    async def __call__(self, *call: Any) -> ProviderAnswer:
        await _at(BEFORE_SEND)
        answer = await self._send(*call)
        await _at(AFTER_SEND)
        return answer


class _StallingRouter:
    def __init__(self, router: Router) -> None:
        self._router = router

    def bank(self, code: str) -> NigerianBank:
        return self._router.bank(code)

    async def route(
        self, target: PayoutTarget, tried: Collection[str], hold_place: HoldPlace
    ) -> PayoutRoute:
        route = await self._router.route(target, tried, hold_place)
        await _at(AFTER_ROUTE)
        return route


def runner(services: Services) -> Runner:
    """Returns a runner of payout jobs whose workers can stall."""
    db, platform, rails = services.db, services.platform, services.rails
    failover = Failover(db, cast(Router, _StallingRouter(services.router)))
    tasks = StallingTasks(
        *(db, platform, rails, failover, services.deliveries),
        *(services.claims, services.delivered, services.base_url),
    )
    machine = cast(Any, tasks.machine)
    machine._send = _StallingSend(machine._send)
    return Runner(db, tasks.job_handlers())


class StalledJob:
    """A worker that has claimed a job and stalls at one step of the job."""

    def __init__(self, runner: Runner, job: Job, step: str) -> None:
        self.job = job
        self._gate = Gate(step)
        self._runner = runner
        self._working = asyncio.create_task(self._work(job))

    async def _work(self, job: Job) -> None:
        _gate.set(self._gate)
        await self._runner._do(job)

    async def reached(self) -> bool:
        """Waits until the worker stalls. Returns False if the job ended before this step."""
        reached = asyncio.create_task(self._gate.reached.wait())
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await asyncio.wait({reached, self._working}, return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        return not self._working.done()

    async def resume(self) -> None:
        self._gate.opened.set()
        await self._working
