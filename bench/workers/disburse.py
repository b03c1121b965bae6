"""Sends payouts to a provider, as Manilla's worker does."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.workers import COUNTED_FROM, running
from manilla.kit.jobs import NextRun, RunEnd, Work
from manilla.payouts.initiate import SEND
from manilla.payouts.tasks import PayoutTasks
from manilla.services import Services

FIRST_MERCHANT = int(os.environ.get(COUNTED_FROM, "0"))
SENT = f"""
    SELECT count(*) FROM payout
     WHERE merchant_id >= {FIRST_MERCHANT} AND began_at IS NOT NULL AND accepted_at IS NOT NULL"""


@asynccontextmanager
async def opened(services: Services) -> AsyncIterator[dict[str, Work]]:
    yield PayoutTasks(
        services.db,
        services.platform,
        services.rails,
        services.failover,
        services.deliveries,
        services.claims,
        services.delivered,
        services.base_url,
    ).job_handlers()


def is_sent(next_run: NextRun) -> bool:
    """Returns whether a status query is scheduled, because the provider accepted the transfer."""
    return next_run is RunEnd.PUT_OFF


if __name__ == "__main__":
    running.main(SEND, opened, is_sent, SENT, FIRST_MERCHANT)
