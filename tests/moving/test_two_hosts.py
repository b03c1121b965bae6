"""A move between two hosts survives a partition. The hosts are network namespaces."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.ha.hosts import TOOLS, isolated

PROGRAM = "tests/moving/two_hosts.py"


def _missing() -> str | None:
    """Returns the reason why the hosts cannot be created on this machine, or None."""
    if os.geteuid() != 0:
        return "only root can give each host its own network"
    if absent := [name for name in (*TOOLS, "bridge") if not shutil.which(name)]:
        return f"{', '.join(absent)} not found; Debian's packages are iproute2, util-linux"
    created = subprocess.run(
        isolated("ip", "link", "add", "cluster", "type", "bridge"),
        capture_output=True,
        text=True,
        check=False,
    )
    return f"namespaces cannot be created: {created.stderr.strip()}" if created.returncode else None


@pytest.mark.long
def test_moves_between_two_hosts_survive_partitions() -> None:
    if reason := _missing():
        pytest.skip(reason)
    command = isolated(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", PROGRAM)
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
