"""Manilla with simulated providers over HTTP. Jobs run only when a test runs them.

One simulator serves all tests of a module. `reset` restores the simulator's initial state before
each test.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import aiohttp
from aiohttp import web
from manilla_simulator.program import build
from manilla_simulator.settings import SimulatorSettings

from manilla import worker
from manilla.kit.jobs import Job, claims
from manilla.kit.jobs.runner import Runner
from manilla.methods import catalogue
from manilla.providers import credentials
from manilla.providers.kinds import KINDS
from manilla.services import Services
from tests.support import kinds
from tests.support.timeouts import TIMEOUT_SECONDS

_LOCK_DUE_JOBS = """
    SELECT subject FROM job
     WHERE kind = ANY ($1) AND due_at <= now() AND parked_at IS NULL
       AND (leased_until IS NULL OR leased_until <= now())
     ORDER BY merchant_id, kind, subject
       FOR UPDATE"""


class ProviderSimulator:
    """Controls the simulated providers and runs Manilla's jobs."""

    def __init__(
        self,
        services: Services,
        session: aiohttp.ClientSession,
        url: str,
        tested: Sequence[kinds.TestedKind],
    ) -> None:
        self.services = services
        self.url = url
        self._session = session
        self._tested = tested

    def used_by(self, services: Services) -> "ProviderSimulator":
        """Returns a controller for the same providers that runs the jobs of these services."""
        return ProviderSimulator(services, self._session, self.url, self._tested)

    async def control(self, path: str, document: Any) -> Any:
        url = f"{self.url}/control/api/{path}"
        async with self._session.post(url, json=document) as reply:
            assert reply.status == 200, await reply.text()
            return await reply.json()

    async def try_control(self, path: str, document: Any) -> int:
        """Sends a command and returns its status. 409 means that no provider makes this change."""
        url = f"{self.url}/control/api/{path}"
        async with self._session.post(url, json=document) as reply:
            return reply.status

    async def read(self, path: str) -> Any:
        async with self._session.get(f"{self.url}/control/api/{path}") as reply:
            assert reply.status == 200, await reply.text()
            return await reply.json()

    async def reset(self) -> None:
        """Restores the initial state, so that no test affects the next test.

        The providers have no transactions and cancel scheduled webhooks, earlier jobs are not due,
        the caches are empty, the simulator's credentials are set, and all rails are up.
        """
        await self.control("reset", {})
        await _postpone_jobs(self.services)
        await _configure(self.services, self._tested, self.url)
        await _mark_rails_up(self.services)
        await forget_outcomes(self.services)
        _clear_caches(self.services)
        await self.services.rails.load()

    async def pay(self, provider: str, reference: str, **how: Any) -> None:
        """Pays the charge as the customer. The provider sends its webhook."""
        await self.control(f"{provider}/charges/{reference}/pay", how)

    async def run_jobs(self) -> None:
        """Runs all due jobs, including the jobs that become due as a result."""
        works = worker.job_handlers(self.services)
        while claimed := await self._claim(list(works)):
            runner = Runner(self.services.db, works)
            await asyncio.gather(*(runner._do(job) for job in claimed))

    async def _claim(self, kinds_of_jobs: list[str]) -> list[Job]:
        """Claims due jobs. A claim skips a job that a webhook locks, so wait for such a job."""
        db, limits = self.services.db, dict.fromkeys(kinds_of_jobs, 50)
        claimed = await claims.claim(db, limits)
        if claimed or not await db.records(_LOCK_DUE_JOBS, kinds_of_jobs):
            return claimed
        return await claims.claim(db, limits)

    async def run_job_now(self, kind: str, subject: str) -> None:
        await self.services.db.execute(
            "UPDATE job SET due_at = now() WHERE kind = $1 AND subject = $2", kind, subject
        )
        await self.run_jobs()

    async def until(self, is_so: Callable[[], Any]) -> None:
        """Runs due jobs until the condition is true. Webhooks can arrive while it waits."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await is_so():
                await self.run_jobs()
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def serving_providers(webhook_base_url: str, **changed: Any) -> AsyncIterator[str]:
    """Serves the simulated providers, with these settings changed, and yields their URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    fast = {"settle_seconds": 0.02, "webhook_retry_seconds": (0.05, 0.05, 0.05)}
    settings = SimulatorSettings(
        mode="development", base_url=url, webhook_base_url=webhook_base_url, **{**fast, **changed}
    )
    runner = web.AppRunner(build(settings), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    try:
        yield url
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def running_simulator(
    services: Services, rails: Sequence[str] = kinds.SEEDED
) -> AsyncIterator[ProviderSimulator]:
    """Runs the simulator, and configures these provider kinds to use it."""
    tested = [kinds.BY_RAIL[rail] for rail in rails]
    added = [kind.provider for kind in tested if kind.rail not in kinds.SEEDED]
    try:
        await _activate_methods(services, added, active=True)
        async with serving_providers(services.base_url) as url, aiohttp.ClientSession() as session:
            simulator = ProviderSimulator(services, session, url, tested)
            await simulator.reset()
            yield simulator
    finally:
        await _activate_methods(services, added, active=False)
        await _configure(services, [], "")
        await services.rails.load()


async def _configure(services: Services, tested: Sequence[kinds.TestedKind], url: str) -> None:
    """Sets the simulator's credentials for these provider kinds, and removes all others."""
    wanted = {kind.provider: kind.credentials(url) for kind in tested}
    current = await credentials.load(services.db, services.keyring)
    for provider in KINDS:
        given = wanted.get(provider, {})
        if current[provider].given == given:
            continue
        await credentials.clear(services.db, provider)
        if given:
            await credentials.change(services.db, services.keyring, provider, given)


async def _postpone_jobs(services: Services) -> None:
    """Postpones earlier tests' jobs, whose calls would use up the next test's simulated faults."""
    await services.db.execute(
        "UPDATE job SET due_at = now() + interval '30 days'"
        " WHERE parked_at IS NULL AND due_at < now() + interval '20 days'"
    )


async def _mark_rails_up(services: Services) -> None:
    """Marks all rails as up, because earlier tests' failed calls may have marked rails as down."""
    health = services.rails.health
    # Without these locks, a running task could still use the earlier state.
    async with services.watch._looking, health._flushing:
        for rail in health._rails.values():
            rail.reset()
        await services.db.execute("UPDATE rail_state SET is_down = false WHERE is_down")


async def forget_outcomes(services: Services) -> None:
    """Deletes the results of earlier payouts, so that no rail counts as failing."""
    services.deliveries._counted.clear()
    services.deliveries._failing = {}
    services.deliveries._read_again_at = 0.0
    await services.db.execute("DELETE FROM rail_bank_minute")


def _clear_caches(services: Services) -> None:
    """Clears the caches of provider responses: account holders, bank lists, balances and fees."""
    services.resolver._kept.clear()
    services.banks._kept.clear()
    for funds in (services.payouts._funds, services.router._funds):
        funds._kept.clear()
        funds._fees.clear()


async def _activate_methods(services: Services, providers: Sequence[str], *, active: bool) -> None:
    """Sets whether these providers' methods are active."""
    if not providers:
        return
    await catalogue.add_missing(services.db)
    for method in await catalogue.load(services.db):
        if method.provider in providers:
            wanted = catalogue.MethodUpdate(active=active)
            await catalogue.change(services.db, method.kind, method.code, wanted)
    await services.methods._refresh(0)
