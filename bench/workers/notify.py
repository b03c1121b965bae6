"""Delivers notifications to merchants, as Manilla's worker does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.workers import running
from manilla.kit.jobs import NextRun, RunEnd, Work
from manilla.notify import delivery
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.ipn import IpnDestination
from manilla.notify.outbox import DELIVER
from manilla.services import Services

# The run adds no notifications, so a notification that is not waiting was delivered or failed.
DELIVERED = "SELECT -count(*) FROM notification WHERE state = 'waiting'"


@asynccontextmanager
async def opened(services: Services) -> AsyncIterator[dict[str, Work]]:
    async with delivery.open_client(
        is_public_only=False, connections=delivery.CONCURRENCY
    ) as client:
        yield NotificationDelivery(
            IpnDestination(services.db, services.directory), client
        ).job_handlers()


def is_delivered(next_run: NextRun) -> bool:
    return next_run in (None, RunEnd.DELETED)


if __name__ == "__main__":
    running.main(DELIVER, opened, is_delivered, DELIVERED)
