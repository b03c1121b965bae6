"""Finds the commits of earlier releases, which are named `release: X.Y.Z`."""

import re
import subprocess
from pathlib import Path

_RELEASE = re.compile(r"^(\w+) release: (\d+\.\d+\.\d+)$", re.MULTILINE)


def newest(project: Path) -> dict[str, str]:
    """Maps the versions of the releases before the current commit to their commits, newest first.

    The result is empty if the clone's history contains no release.
    """
    log = subprocess.run(
        ["git", "log", "--format=%H %s", "HEAD^"], cwd=project, capture_output=True, check=False
    )
    return {version: commit for commit, version in _RELEASE.findall(log.stdout.decode())}
