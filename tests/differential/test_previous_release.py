"""The same random events store the same rows in this version and in the previous release."""

import secrets
import subprocess
from pathlib import Path

import pytest

from tests.differential.playing import compare

EVENTS = 300
_RELEASES = ("git", "log", "--grep=^release: ", "--format=%H", "HEAD~1")


def previous_release() -> str:
    """Returns the commit of the newest release before this commit."""
    log = subprocess.run(_RELEASES, capture_output=True, text=True, check=False)
    if log.returncode or not log.stdout:
        pytest.skip("There is no history with a release.")
    return log.stdout.split()[0]


@pytest.mark.long
def test_this_version_stores_what_the_previous_release_stores(tmp_path: Path) -> None:
    seed = secrets.randbelow(1_000_000)
    assert compare(previous_release(), tmp_path, seed, EVENTS) == [], f"seed {seed}"
