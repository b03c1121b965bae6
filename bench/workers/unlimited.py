"""Runs Manilla without counting requests for the rate limit, to measure the cost of counting.

The program starts like Manilla, but its limiter allows every request without a query.
"""

import asyncio
import os
import socket
import sys

import uvloop

import manilla.app
from manilla.kit import logs
from manilla.kit.ratelimit import WINDOW_SECONDS, Allowance, RateLimiter, RateTicket
from manilla.settings import Mode, Settings


class NoLimit(RateLimiter):
    async def take(self, bucket: str, limit: int, *, cost: int = 1) -> Allowance:
        return Allowance(limit, cost, WINDOW_SECONDS)

    async def spend(self, ticket: RateTicket) -> None:
        ticket.spend(1, WINDOW_SECONDS)


def main() -> None:
    logs.configure("api")
    settings = Settings.read(os.environ, assumed_mode=Mode.PRODUCTION)
    listener = socket.socket(fileno=int(sys.argv[1]))
    manilla.app.RateLimiter = NoLimit  # type: ignore[attr-defined]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(manilla.app.serve(settings, listener))


if __name__ == "__main__":
    main()
