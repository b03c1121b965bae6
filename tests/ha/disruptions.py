"""The seven kinds of disruptions. Each returns when the cause has been removed."""

import asyncio
import itertools
import signal
import time
from collections.abc import Awaitable, Callable

import msgspec

from tests.ha.cluster import POLL_SECONDS, DatabaseCluster
from tests.ha.load import Load

# etcd is away for longer than Patroni's `ttl` (20 s), so that leader locks expire.
ETCD_SECONDS = 25
# A full disk that caused no failover within this time is freed.
FULL_SECONDS = 30
ENOUGH = 10  # This many acknowledged writes show that the service is back.


class Stage(msgspec.Struct):
    cluster: DatabaseCluster
    load: Load

    async def has_failed_over(self, elections: int) -> None:
        """Waits until another host was elected and writes are acknowledged again."""
        stalls = len(self.load.stalls)
        # After the machine has stopped and continued this program, there may be no election.
        while len(self.cluster.elections) == elections and len(self.load.stalls) == stalls:
            await asyncio.sleep(POLL_SECONDS)
        await self.load.more(ENOUGH)


async def kill_the_primary(stage: Stage) -> None:
    before = len(stage.cluster.elections)
    stage.cluster.primary.kill_postmaster()
    await stage.has_failed_over(before)


async def freeze_the_primarys_host(stage: Stage) -> None:
    """Stops all processes of the host, with etcd and Patroni, until another host has taken over."""
    host, before = stage.cluster.primary, len(stage.cluster.elections)
    host.send_signal(signal.SIGSTOP)
    try:
        await stage.has_failed_over(before)
    finally:
        host.send_signal(signal.SIGCONT)


async def switch_over(stage: Stage) -> None:
    before = len(stage.cluster.elections)
    await stage.cluster.switch_over()
    await stage.has_failed_over(before)


async def drop_packets(stage: Stage) -> None:
    """Drops all packets of the primary's host until another host has taken over."""
    host, before = stage.cluster.primary, len(stage.cluster.elections)
    host.disconnect()
    try:
        await stage.has_failed_over(before)
    finally:
        host.connect()


async def lose_etcd(stage: Stage) -> None:
    """Kills the majority of etcd, and starts it again when Patroni's locks have expired."""
    lost = stage.cluster.hosts[:2]
    for host in lost:
        host.send_signal(signal.SIGKILL, "etcd")
    await asyncio.sleep(ETCD_SECONDS)
    for host in lost:
        stage.cluster.start_etcd(host)


async def lose_both_standbys(stage: Stage) -> None:
    """Kills both standbys, and starts them again when writes are rejected."""
    lost = stage.cluster.standbys
    for host in lost:
        host.send_signal(signal.SIGKILL, "patroni", "postgres")
    rejected = stage.load.unavailable.total()
    while stage.load.unavailable.total() < rejected + ENOUGH:
        await asyncio.sleep(POLL_SECONDS)
    for host in lost:
        stage.cluster.start_patroni(host)


async def fill_the_disk(stage: Stage) -> None:
    """Fills the disk with the primary's data until another host has taken over."""
    host, before = stage.cluster.primary, len(stage.cluster.elections)
    deadline = time.monotonic() + FULL_SECONDS
    host.fill_disk()
    try:
        while len(stage.cluster.elections) == before and time.monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS)
        if len(stage.cluster.elections) > before:
            await stage.load.more(ENOUGH)
    finally:
        host.free_disk()


KINDS: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "primary killed": kill_the_primary,
    "primary's host frozen": freeze_the_primarys_host,
    "switchover": switch_over,
    "packets dropped": drop_packets,
    "etcd lost": lose_etcd,
    "both standbys lost": lose_both_standbys,
    "disk full": fill_the_disk,
}


class Disruption(msgspec.Struct, frozen=True):
    kind: str
    interruption_seconds: float  # the longest time without an acknowledged write
    elections: int
    # The time from each election until the first write that was acknowledged after it.
    recovery_seconds: list[float]
    was_stalled: bool  # The machine stopped this program, so the times mean nothing.


async def disrupt(stage: Stage, kind: str) -> Disruption:
    cluster, load = stage.cluster, stage.load
    await cluster.until(cluster.is_healthy)
    await load.more(ENOUGH)
    start, before = time.monotonic(), len(cluster.elections)
    load.kind = kind
    await KINDS[kind](stage)
    await cluster.until(cluster.is_healthy)
    await load.more(ENOUGH)
    end = time.monotonic()
    return Disruption(
        kind=kind,
        interruption_seconds=load.longest_gap(start, end),
        elections=len(cluster.elections) - before,
        recovery_seconds=_recoveries(stage, before),
        was_stalled=any(start <= moment <= end for moment in load.stalls),
    )


def _recoveries(stage: Stage, before: int) -> list[float]:
    found = []
    elections = [each.at for each in stage.cluster.elections[before:]]
    for elected_at, next_at in itertools.pairwise([*elections, time.monotonic()]):
        served_at = stage.load.first_after(elected_at)
        if served_at is not None and served_at <= next_at:
            found.append(served_at - elected_at)
    return found
