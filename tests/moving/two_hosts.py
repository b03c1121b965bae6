"""Moves between two hosts whose network fails. `test_two_hosts.py` runs this in namespaces.

Each cell's PostgreSQL server runs on a host with its own network. The command and the web processes
of both cells run in this process, which has a third address.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manilla.cells.moving.replication import name_of
from manilla.cells.moving.stored import Step
from manilla.kit.embedded import postgres
from manilla.settings import Settings
from tests.faults.replicated import NetworkCluster, listen_on, until_ready
from tests.ha.hosts import Host, create_network
from tests.moving.movers import Mover, two_cells
from tests.moving.outcome import check, events, prepare, stopped_copy
from tests.support import template
from tests.support.waiting import until

PORT = 5432
# The servers notice soon that packets are lost.
SHORT = {"wal_sender_timeout": "3s", "wal_receiver_timeout": "3s"}
# The command has repeated its marker, which does not arrive.
WAITS = "SELECT bool_or(move LIKE '%:2') FROM move_marker"
IS_CUT_OFF = "SELECT NOT active FROM pg_replication_slots WHERE slot_name = $1"


class Network:
    def __init__(self, hosts: tuple[Host, Host]) -> None:
        self._hosts = hosts

    async def cut(self, mover: Mover) -> None:
        """Drops all packets between the databases, until the first cell's server notices it."""
        for host in self._hosts:
            host.isolate()

        async def is_cut_off() -> bool:
            slot = name_of(mover.merchant_id)
            return bool(await mover.owners["lagos"].value(IS_CUT_OFF, slot))

        await until(is_cut_off)

    def heal(self) -> None:
        for host in self._hosts:
            host.isolate(is_isolated=False)


@pytest.fixture(scope="module")
async def hosts() -> AsyncIterator[tuple[Host, Host]]:
    both = (Host(1), Host(2))
    await asyncio.to_thread(create_network, both)
    yield both
    for host in both:
        host.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
async def clusters(
    hosts: tuple[Host, Host], tmp_path_factory: pytest.TempPathFactory
) -> list[NetworkCluster]:
    return [await _start(host, tmp_path_factory.mktemp(host.name)) for host in hosts]


async def _start(host: Host, logs: Path) -> NetworkCluster:
    """Starts a server on the host."""
    await asyncio.to_thread(template.copy_migrated, host.data)
    cluster = await asyncio.to_thread(postgres.prepare, host.data)
    listen_on(cluster.folder, PORT, listen_addresses=host.address, **SHORT)
    with (cluster.folder / "pg_hba.conf").open("a") as access:
        access.write("host all all samenet scram-sha-256\n")
    program = cluster.program(None)
    server = host.start(program.command, program.environment, logs / "postgres.log", cluster.folder)
    found = NetworkCluster.of(cluster, f"{host.address}:{PORT}")
    await until_ready(found, server)
    return found


@pytest.fixture
def network(hosts: tuple[Host, Host]) -> Network:
    return Network(hosts)


@pytest.fixture
async def mover(
    clusters: list[NetworkCluster], settings: Settings, network: Network
) -> AsyncIterator[Mover]:
    lagos, abuja = clusters
    async with two_cells(lagos, settings, second=abuja) as both:
        yield both
        network.heal()


async def test_a_copy_continues_after_a_partition(mover: Mover, network: Network) -> None:
    payouts = await prepare(mover)
    async with stopped_copy(mover) as moving:
        await network.cut(mover)
    network.heal()
    await moving
    await _check(mover, payouts)


async def test_a_move_waits_under_the_fence_until_a_partition_ends(
    mover: Mover, network: Network
) -> None:
    payouts = await prepare(mover)
    await mover.move_until(Step.FENCE)
    await network.cut(mover)
    moving = asyncio.create_task(mover.resume())
    await until(lambda: mover.owners["lagos"].value(WAITS))
    network.heal()
    await moving
    await _check(mover, payouts)


async def test_a_move_is_taken_back_during_a_partition(mover: Mover, network: Network) -> None:
    payouts = await prepare(mover)
    await mover.move_until(Step.FENCE)
    await network.cut(mover)
    await mover.abort()
    await check(mover, "lagos", payouts)
    network.heal()
    await mover.move()
    await _check(mover, payouts)


async def _check(mover: Mover, payouts: tuple[str, ...]) -> None:
    await check(mover, "abuja", payouts)
    every, _ = await events(mover, "abuja", None)
    assert len(every) == len(set(every)) == len(payouts)
