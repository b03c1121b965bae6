"""If the disk is full, new writes are rejected, and all acknowledged data stays stored."""

import asyncio
import contextlib
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.faults.live_instance import LiveInstance
from tests.support.client import Reply
from tests.support.timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.long

SIZE = "192m"  # The disk has enough space for one database and little else.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root can mount a small disk")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
async def running(small_disk: Path) -> AsyncIterator[LiveInstance]:
    running = await LiveInstance(small_disk).open()
    yield running
    await running.close()


async def test_34_a_full_disk_is_reported_cleanly_and_service_recovers_with_space(
    running: LiveInstance, small_disk: Path
) -> None:
    acknowledged: list[str] = []

    async def until(status: int) -> Reply:
        """Creates payments until one gets this status. All other payments must get 200 or 503."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                reference = secrets.token_hex(8)
                reply = await running.initiate(ref_trx=reference)
                assert reply.status in (200, 503), reply.body
                if reply.status == 200:
                    acknowledged.append(reference)
                if reply.status == status:
                    return reply

    await until(200)
    with contextlib.suppress(OSError), (small_disk / "fill").open("wb", buffering=0) as fill:
        while True:
            fill.write(bytes(1024 * 1024))
    refused = await until(503)
    assert (refused.code, "retry-after" in refused.headers) == ("SERVICE_UNAVAILABLE", True)
    (small_disk / "fill").unlink()
    await until(200)
    for reference in acknowledged:
        assert (await running.initiate(ref_trx=reference)).code == "DUPLICATE_REFERENCE"
    assert await running.invariants_hold()
