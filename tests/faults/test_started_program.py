"""Nothing waits for a program that has ended: the error names the program and shows its log."""

import subprocess
from pathlib import Path

import msgspec
import pytest

from manilla.kit.embedded.postgres import Cluster
from tests.faults.replicated import until_ready
from tests.ha.hosts import Host
from tests.support.started_program import ProgramEnded, StartedProgram

MESSAGE = "PostgreSQL has ended with status 3. Its log .*postgres.log ends with:\n.*cannot start"


@pytest.fixture
def ended(tmp_path: Path) -> StartedProgram:
    log = tmp_path / "postgres.log"
    log.write_text("cannot start\n")
    process = subprocess.Popen(["sh", "-c", "exit 3"])
    process.wait()
    return StartedProgram("PostgreSQL", process, log)


async def test_a_server_that_has_ended_is_not_waited_for(
    ended: StartedProgram, cluster: Cluster, tmp_path: Path
) -> None:
    nowhere = msgspec.structs.replace(cluster, socket_folder=tmp_path)
    with pytest.raises(ProgramEnded, match=MESSAGE):
        await until_ready(nowhere, ended)


def test_a_program_of_a_host_that_has_ended_is_reported(ended: StartedProgram) -> None:
    host = Host(1)
    host._started.append(ended)
    with pytest.raises(ProgramEnded, match=MESSAGE):
        host.check()
