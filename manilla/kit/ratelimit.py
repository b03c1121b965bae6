"""A rate limit that is exact across all processes and hosts.

The counts are in an unlogged database table. A crash can lose one minute of counts, which does not
affect money. One SQL statement counts all requests that arrive at the same time.
"""

import ipaddress
from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache

import msgspec

from manilla.kit.batch import Batcher
from manilla.kit.database.connections import Database, KeptConnection
from manilla.kit.errors import Refusal, translatable

WINDOW_SECONDS = 60
GATHER_SECONDS = 0.002
WINDOW = timedelta(seconds=WINDOW_SECONDS)

# Only buckets whose name has this prefix can have windows longer than WINDOW, up to SLOW_WINDOW.
SLOW = "slow:"
SLOW_WINDOW = timedelta(minutes=15)

IPV6_NETWORK_BITS = 64
UNPARSED_CHARACTERS_MAX = 64


@lru_cache(maxsize=4096)  # cached, because callers send many requests from the same address
def address_bucket(address: str) -> str:
    """Returns the bucket in which requests from this address are counted.

    An IPv6 customer has a whole /64 network, so all addresses of a network count as one. An IPv4
    address in IPv6 notation counts as the IPv4 address.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:UNPARSED_CHARACTERS_MAX]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((parsed, IPV6_NETWORK_BITS), strict=False))
        parsed = parsed.ipv4_mapped
    return str(parsed)


class RateLimitExceeded(Refusal):
    status, code = 429, "RATE_LIMIT_EXCEEDED"
    message = translatable("Too many requests. Please slow down.")


class Allowance(msgspec.Struct, frozen=True):
    """How much of the rate limit a caller has used, including this request."""

    limit: int
    used: int
    resets_in_seconds: int

    @property
    def exceeded(self) -> bool:
        return self.used > self.limit

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)


class RateTicket:
    """A request that is counted exactly once, by the rate limiter or by its own SQL statement.

    An SQL statement that writes passes the ticket's bucket to the SQL function `rate_take`, so that
    counting needs no extra round trip. The statement writes only if the count is within the limit.
    """

    __slots__ = ("allowance", "bucket", "limit")

    def __init__(self, bucket: str, limit: int) -> None:
        self.bucket = bucket
        self.limit = limit
        self.allowance: Allowance | None = None

    def spend(self, used: int, resets_in_seconds: int) -> None:
        self.allowance = Allowance(self.limit, used, resets_in_seconds)
        if self.allowance.exceeded:
            raise RateLimitExceeded(retry_after_seconds=resets_in_seconds)


class _Take(msgspec.Struct, frozen=True):
    bucket: str
    cost: int


class _Count(msgspec.Struct, frozen=True):
    bucket: str
    used: int
    resets_in_seconds: int


class RateLimiter:
    def __init__(self, db: Database) -> None:
        self._connection = db.keep_connection()
        self._batcher = Batcher(self._count, batch_max=512, gather_seconds=GATHER_SECONDS)

    async def take(self, bucket: str, limit: int, *, cost: int = 1) -> Allowance:
        """Counts a request in this bucket. With a cost of 0, only returns the current count."""
        count = await self._batcher.submit(_Take(bucket, cost))
        return Allowance(limit, count.used, count.resets_in_seconds)

    async def spend(self, ticket: RateTicket) -> None:
        """Counts a request that no other SQL statement has counted. Raises if the rate limit is
        exceeded.
        """
        count = await self._batcher.submit(_Take(ticket.bucket, 1))
        ticket.spend(count.used, count.resets_in_seconds)

    async def _count(self, takes: Sequence[_Take]) -> Sequence[_Count]:
        costs: dict[str, int] = {}
        for take in takes:
            costs[take.bucket] = costs.get(take.bucket, 0) + take.cost
        counts = {count.bucket: count for count in await _add(self._connection, costs)}
        return _in_order(takes, costs, counts)


def _in_order(
    takes: Sequence[_Take], costs: dict[str, int], counts: dict[str, _Count]
) -> list[_Count]:
    """Returns the count for each request, in the order of arrival within the batch."""
    used = {bucket: counts[bucket].used - cost for bucket, cost in costs.items()}
    placed = []
    for take in takes:
        used[take.bucket] += take.cost
        placed.append(_Count(take.bucket, used[take.bucket], counts[take.bucket].resets_in_seconds))
    return placed


async def _add(db: KeptConnection, costs: dict[str, int]) -> list[_Count]:
    return await db.rows(
        _Count,
        "SELECT bucket, used, resets_in_seconds FROM rate_take($1, $2, $3)",
        list(costs),
        list(costs.values()),
        WINDOW,
    )


async def delete_ended_windows(db: Database) -> None:
    await db.execute(
        """
        DELETE FROM rate_window
         WHERE started_at + CASE WHEN bucket ^@ $1 THEN $2::interval ELSE $3 END
               < clock_timestamp()""",
        SLOW,
        SLOW_WINDOW,
        WINDOW,
    )
