"""A merchant with webhook endpoints, and a worker that sends events when a test calls `deliver`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from manilla.job_kinds import JobKind
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job, claims
from manilla.kit.jobs.runner import Runner
from manilla.ledger.scope import Tenant
from manilla.notify import delivery
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.endpoints import store
from manilla.notify.endpoints.deliveries import EndpointDelivery, ResendTasks, log
from manilla.notify.endpoints.destination import DueDelivery, EndpointDestination
from manilla.notify.endpoints.endpoint import WebhookEndpoint
from manilla.services import Services
from tests.notify.deliveries import Deliveries
from tests.support.client import Merchant, Reply

ENDPOINTS = "/api/v1/webhook-endpoints"


class EndpointMerchant:
    def __init__(
        self,
        services: Services,
        deliveries: Deliveries,
        delivery: NotificationDelivery[DueDelivery],
        owner: Database,
    ) -> None:
        self.services, self.deliveries, self.delivery, self.owner = (
            *(services, deliveries, delivery, owner),
        )
        self.merchant: Merchant = deliveries.merchant
        self.receiver = deliveries.receiver

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.merchant.new.id, Environment.SANDBOX)

    async def create(self, *events: str, url: str | None = None) -> dict[str, str]:
        """Creates an endpoint, reloads the cache, and returns the endpoint's id and secret."""
        body = {"url": url or self.receiver.url, "events": list(events or ("*",))}
        reply = await self.merchant.post(ENDPOINTS, body)
        assert reply.status == 200, reply.body
        await self.services.directory._refresh(0)
        created: dict[str, str] = reply.json
        return created

    async def send(self, method: str, path: str, body: bytes = b"") -> Reply:
        return await self.merchant.call(method, f"{ENDPOINTS}/{path}", body)

    async def endpoint(self, endpoint_id: str) -> WebhookEndpoint:
        return await store.find(self.services.db, self.tenant, endpoint_id)

    async def deliver(self) -> None:
        runner = Runner(self.services.db, self.delivery.job_handlers())
        claimed, _ = await claims.claim_fairly(
            self.services.db, JobKind.ENDPOINT, 100, self.merchant.new.id - 1
        )
        mine = [job for job in claimed if job.merchant_id == self.merchant.new.id]
        await asyncio.gather(*(runner._do(job) for job in mine))

    async def resend(self) -> None:
        works = ResendTasks(self.services.db).job_handlers()
        while claimed := await claims.claim(self.services.db, {JobKind.RESEND: 100}):
            for job in claimed:
                await Runner(self.services.db, works)._do(job)

    async def skip_to_next_attempt(self) -> float:
        """Makes the next attempt due, and returns how long the worker would have waited for it."""
        seconds: float = await self.owner.value(
            """
            WITH moved AS (
                UPDATE job SET due_at = now() WHERE merchant_id = $1 AND kind = 'endpoint'),
            aged AS (
                UPDATE delivery_attempt SET at = at - interval '2 days' WHERE merchant_id = $1)
            SELECT extract(epoch FROM max(due_at) - now())::float8 FROM job
             WHERE merchant_id = $1 AND kind = 'endpoint'""",
            self.merchant.new.id,
        )
        return seconds

    async def log(self, endpoint_id: str) -> list[EndpointDelivery]:
        return (await log(self.services.db, await self.endpoint(endpoint_id))).rows

    async def jobs(self) -> list[Any]:
        return await self.services.db.records(
            "SELECT subject FROM job WHERE merchant_id = $1 AND kind = 'endpoint'",
            self.merchant.new.id,
        )


@contextlib.asynccontextmanager
async def endpoint_worker(
    services: Services, *, is_public_only: bool = False
) -> AsyncIterator[NotificationDelivery[DueDelivery]]:
    async with delivery.open_client(is_public_only=is_public_only, connections=64) as client:
        destination = EndpointDestination(services.db, services.keyring)
        yield NotificationDelivery(destination, client)


def job_of(merchant_id: int, subject: str) -> Job:
    return Job(merchant_id, JobKind.ENDPOINT, subject, attempts=1, failures=0, fence=0)
