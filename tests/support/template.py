"""Data folders that are prepared once per test run, and then copied for each server.

Initializing PostgreSQL, migrating the database and creating the demo merchant take seconds of CPU
time. A copy takes a fraction of a second.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg

from manilla.cli import instance
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.embedded.process import Supervisor
from manilla.sql import migrate

# The process that starts a test run sets this variable, and the test processes inherit it.
FOLDER_VARIABLE = "MANILLA_TEST_TEMPLATES"

# Every copied cluster contains this migrated database, from which more databases are created.
DATABASE = "migrated"


@contextlib.contextmanager
def shared_folder() -> Iterator[None]:
    """Creates a folder for the templates of this test run, and deletes the folder at the end."""
    if FOLDER_VARIABLE in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="manilla-templates-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER_VARIABLE]


def copy_migrated(to: Path) -> None:
    _copy("migrated", _migrated, to)


@contextlib.asynccontextmanager
async def running_cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Runs a migrated server in the folder. The supervisor starts it again after a crash."""
    await asyncio.to_thread(copy_migrated, folder)
    cluster = await asyncio.to_thread(postgres.prepare, folder)
    supervisor = Supervisor()
    await supervisor.start(cluster.program(folder / "postgres.log"))
    try:
        await postgres.wait_until_ready(cluster)
        yield cluster
    finally:
        await supervisor.stop()


def copy_with_demo(to: Path, start_and_stop: Callable[[Path], None]) -> None:
    """Copies the data folder of an instance with the demo merchant.

    `start_and_stop` runs an instance in the given folder.
    """

    def build(folder: Path) -> None:
        copy_migrated(folder)
        start_and_stop(folder)
        (folder / "instance.json").unlink(missing_ok=True)
        shutil.rmtree(folder / "logs")

    _copy("demo", build, to)


def _copy(name: str, build: Callable[[Path], None], to: Path) -> None:
    templates = Path(os.environ[FOLDER_VARIABLE])
    template = templates / name
    with (templates / f"{name}.lock").open("w") as lock:
        # The first test process builds the template while the others wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            unfinished = templates / f"{name}.unfinished"
            build(unfinished)
            unfinished.rename(template)
    # `cp` preserves the files' owner, because PostgreSQL may run under another user account.
    subprocess.run(["cp", "-a", "--reflink=auto", str(template), str(to)], check=True)


def _migrated(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    instance.ensure_master_key(folder)
    # Use a thread, because this process may already run an event loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _initialize_and_migrate(folder)).result()


async def _initialize_and_migrate(folder: Path) -> None:
    cluster = postgres.prepare(folder)
    supervisor = Supervisor()
    await supervisor.start(cluster.program(folder.parent / "postgres.log"))
    try:
        await postgres.wait_until_ready(cluster)
        await _save_time(cluster)
        # With one iteration instead of 4,096, opening a connection takes half the CPU time.
        superuser = cluster.url(postgres.SUPERUSER, "postgres") + "&scram_iterations=1"
        await postgres.create_database(superuser, cluster.passwords)
        await _permit_moves(cluster)
        await migrate.upgrade(cluster.url(postgres.OWNER), cluster.url(postgres.APPLICATION))
        await _keep_a_copy(cluster)
    finally:
        await supervisor.stop()


async def _keep_a_copy(cluster: postgres.Cluster) -> None:
    """Copies the migrated database as a template for other databases, and forbids connections."""
    connection = await asyncpg.connect(cluster.url(postgres.SUPERUSER, "postgres"))
    try:
        await connection.execute(
            f"CREATE DATABASE {DATABASE} TEMPLATE {postgres.NAME} OWNER {postgres.OWNER}"
            " ALLOW_CONNECTIONS false"
        )
    finally:
        await connection.close()


async def _permit_moves(cluster: postgres.Cluster) -> None:
    """Gives the owner the rights that `manilla cell move` needs."""
    connection = await asyncpg.connect(cluster.url(postgres.SUPERUSER, "postgres"))
    try:
        await connection.execute(f"ALTER ROLE {postgres.OWNER} REPLICATION")
        await connection.execute(f"GRANT pg_create_subscription TO {postgres.OWNER}")
    finally:
        await connection.close()


async def _save_time(cluster: postgres.Cluster) -> None:
    """Disables fsync, because the data need not survive a crash of the operating system.

    Even without fsync, the data survives the crash of a process. Each connection plans an SQL
    statement once instead of six times.
    """
    connection = await asyncpg.connect(cluster.url(postgres.SUPERUSER, "postgres"))
    try:
        for name in ("fsync", "full_page_writes"):
            await connection.execute(f"ALTER SYSTEM SET {name} = off")
        await connection.execute("ALTER SYSTEM SET plan_cache_mode = force_generic_plan")
        # Merchants are moved to other databases of the same server.
        await connection.execute("ALTER SYSTEM SET wal_level = logical")
    finally:
        await connection.close()
