"""Starts PostgreSQL as root from a directory that PostgreSQL's user account cannot read."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from manilla.kit.embedded import binaries, postgres

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="PostgreSQL runs as another user only if root starts it"
)

RUN = """
import asyncio, sys
from pathlib import Path
from manilla.kit.embedded import postgres
from manilla.kit.embedded.process import Supervisor

async def run(data, binaries, cache):
    data.mkdir(mode=0o700)
    cluster = postgres.prepare(data, binaries, cache)
    supervisor = Supervisor()
    await supervisor.start(cluster.program(data / "log"))
    await postgres.wait_until_ready(cluster)
    print(cluster.binaries, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await supervisor.stop()

asyncio.run(run(*map(Path, sys.argv[1:])))
"""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A PostgreSQL installation that only root can read, like files created with a umask of 077."""
    tmp_path.chmod(0o700)
    package = postgres.find_binaries().parent.parent
    libraries = package.with_name(package.name + ".libs")
    skipped = shutil.ignore_patterns("include", "doc", "man")
    shutil.copytree(package, tmp_path / package.name, ignore=skipped, symlinks=True)
    shutil.copytree(libraries, tmp_path / libraries.name)
    for path in tmp_path.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)
    return tmp_path / package.name / "pginstall" / "bin"


@pytest.fixture
def cache() -> Iterator[Path]:
    """A cache directory outside pytest's directory, which other user accounts cannot enter.

    Neither the cache directory nor its parent exists when the test starts.
    """
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder / "parent" / "cache"
    shutil.rmtree(folder)


class Server:
    """A process with a umask of 077 that initializes a database and runs its server."""

    def __init__(self, data: Path, binaries: Path, cache: Path, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(data), str(binaries), str(cache)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            umask=0o077,
        )

    def binaries(self) -> Path:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for line in self._process.stdout:
            if line.startswith("/"):  # other lines are warnings
                return Path(line.strip())
        raise AssertionError(self._process.stderr.read())

    def end(self) -> None:
        self._process.communicate("")


def _copies(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir() if path.is_dir()}


@pytest.mark.long
def test_four_servers_starting_together_share_one_copy(
    private: Path, cache: Path, tmp_path: Path
) -> None:
    four = [Server(tmp_path / f"data {number}", private, cache) for number in range(4)]
    try:
        used = {each.binaries() for each in four}
    finally:
        for each in four:
            each.end()
    assert len(used) == 1
    assert used.pop().is_relative_to(cache)
    assert len(_copies(cache)) == 1
    for number in range(4):
        assert (tmp_path / f"data {number}" / "postgres" / "PG_VERSION").exists()


@pytest.mark.long
def test_a_copy_is_removed_when_no_server_uses_it(
    private: Path, cache: Path, tmp_path: Path
) -> None:
    first = Server(tmp_path / "first", private, cache)
    old = first.binaries()
    (private.parent / "share" / "release-notes").write_text("another version")
    second = Server(tmp_path / "second", private, cache)
    new = second.binaries()
    assert old != new
    assert old.exists()  # The first process still uses the old copy of PostgreSQL.
    first.end()
    second.end()
    third = Server(tmp_path / "third", private, cache)
    assert third.binaries() == new
    third.end()
    assert not old.exists()
    assert len(_copies(cache)) == 1


@pytest.mark.long
def test_identical_contents_share_a_copy_whenever_they_were_installed(
    private: Path, cache: Path, tmp_path: Path
) -> None:
    first = Server(tmp_path / "first", private, cache)
    before = first.binaries()
    os.utime(private.parent, (1, 1))
    second = Server(tmp_path / "second", private, cache)
    assert second.binaries() == before
    for each in (first, second):
        each.end()


def test_programs_next_to_files_that_only_root_can_read_are_not_used(
    private: Path,
) -> None:
    installation = private.parent
    for path in (installation, *installation.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    libraries = installation.parent.with_name(installation.parent.name + ".libs")
    for path in (libraries, *libraries.rglob("*")):
        path.chmod(0o755)
    assert binaries.is_readable(installation)
    for secret in (next(installation.rglob("postgres.bki")), next(libraries.iterdir())):
        secret.chmod(0o711)  # With a umask of 077, pip installs programs with this mode.
        assert not binaries.is_readable(installation)
        secret.chmod(0o755)


def test_a_cache_writable_by_others_is_not_used(private: Path, cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    cache.parent.chmod(0o755)
    temporary = cache.with_name("temporary")
    temporary.mkdir()
    temporary.chmod(0o1777)  # The directory has the same mode as /tmp, regardless of the umask.
    server = Server(tmp_path / "data", private, cache, TMPDIR=str(temporary))
    used = server.binaries()
    server.end()
    assert used.is_relative_to(temporary)
    assert _copies(cache) == set()
