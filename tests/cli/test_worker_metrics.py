"""A worker serves its own metrics, so that it needs no API process beside it."""

import os
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.command import manilla
from tests.support.instance import MANILLA, InstanceFolder, free_port
from tests.support.waiting import until_true


async def test_a_worker_serves_the_metrics_that_it_measures(
    idle: InstanceFolder, tmp_path: Path
) -> None:
    port = free_port()
    words = ["worker", "--metrics-port", str(port), "--data", str(idle.folder)]
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}

    def has_measured() -> bool:
        assert worker.poll() is None, "the worker has ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
                return b"\nmanilla_measured_at_seconds " in reply.read()
        except urllib.error.URLError:
            return False

    with subprocess.Popen([*MANILLA, *words], env=environment) as worker:  # noqa: ASYNC220
        try:
            await until_true(has_measured)
        finally:
            worker.terminate()
    assert worker.returncode == 0


def test_a_worker_rejects_a_metrics_port_that_is_in_use(idle: InstanceFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        run = manilla("worker", "--metrics-port", port, "--data", str(idle.folder))
    assert run.returncode == 1
    assert run.stderr == (
        f"manilla: Cannot serve metrics on 127.0.0.1:{port}: Address already in use.\n"
    )
