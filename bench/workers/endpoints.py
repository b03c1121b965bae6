"""Delivers events to webhook endpoints, as Manilla's worker does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.workers import running
from manilla.job_kinds import JobKind
from manilla.kit.jobs import NextRun, RunEnd, Work
from manilla.notify import delivery
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.endpoints.destination import EndpointDestination
from manilla.services import Services

DELIVERED = "SELECT count(*) FROM endpoint_delivery WHERE state = 'delivered'"


@asynccontextmanager
async def opened(services: Services) -> AsyncIterator[dict[str, Work]]:
    async with delivery.open_client(
        is_public_only=False, connections=delivery.CONCURRENCY
    ) as client:
        destination = EndpointDestination(services.db, services.keyring)
        yield NotificationDelivery(destination, client).job_handlers()


def is_delivered(next_run: NextRun) -> bool:
    return next_run in (None, RunEnd.DELETED)


if __name__ == "__main__":
    running.main(JobKind.ENDPOINT, opened, is_delivered, DELIVERED)
