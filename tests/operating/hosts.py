"""The hosts on which an operator runs the commands of the operating manual."""

import asyncio
import base64
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from manilla.kit.embedded.postgres import APPLICATION, NAME, OWNER, SUPERUSER, Cluster
from manilla.kit.embedded.process import SystemAccount
from manilla.settings import Settings
from tests.support.instance import free_port
from tests.support.timeouts import TIMEOUT_SECONDS
from tests.support.waiting import until


def blocks(document: Path, heading: str) -> list[str]:
    """Returns the shell commands under a heading of a document, one text for each block."""
    [section] = re.findall(
        rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)",
        document.read_text(),
        re.DOTALL | re.MULTILINE,
    )
    found = re.findall(r"^ *```sh\n(.*?)^ *```$", section, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


async def run(
    command: str,
    environment: dict[str, str],
    folder: Path,
    account: SystemAccount | None = None,
    status: int = 0,
) -> str:
    """Runs shell commands in a folder, and returns what they print."""
    done = await asyncio.to_thread(
        subprocess.run,
        ["sh", "-euc", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
        env=environment,
        cwd=folder,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


class ManillaHost:
    """A host on which Manilla is installed and configured for production."""

    def __init__(self, project: Path, folder: Path, binaries: Path, on: Settings) -> None:
        program = folder / "programs" / "manilla"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m manilla "$@"\n')
        program.chmod(0o755)
        self._folder = folder
        self._environment = {
            **os.environ,
            "PATH": f"{program.parent}:{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": str(project),
            "MANILLA_MODE": "production",
            "MANILLA_BASE_URL": on.base_url,
            "MANILLA_DATABASE_URL": on.database_url,
            "MANILLA_MIGRATION_URL": on.migration_url,
            "MANILLA_MASTER_KEY": base64.b64encode(on.master_keys[0]).decode(),
        }

    async def run(self, command: str, *, status: int = 0, **variables: str) -> str:
        return await run(command, {**self._environment, **variables}, self._folder, status=status)


class DatabaseHost:
    """A host with a PostgreSQL server. All hosts of a test share a folder with `deploy/`."""

    def __init__(self, cluster: Cluster, folder: Path, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self._cluster = cluster
        self._folder = folder

    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(
            settings, database_url=self.url(APPLICATION), migration_url=self.url(OWNER)
        )

    def url(self, role: str) -> str:
        return f"postgresql://{role}:{self._cluster.passwords[role]}@127.0.0.1:{self.port}/{NAME}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the user who runs PostgreSQL."""
        return {
            "PATH": f"{self._cluster.binaries}:/usr/bin:/bin",
            "LC_ALL": "C",
            "TZ": "UTC",
            "PGDATA": str(self.data),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": SUPERUSER,
            "PGPASSWORD": self._cluster.passwords[SUPERUSER],
            "PGCTLTIMEOUT": str(TIMEOUT_SECONDS),
        }

    async def run(self, command: str, **variables: str) -> str:
        environment = {**self.environment, **variables}
        return await run(command, environment, self._folder, self._cluster.account)

    def start_service(self, command: str, **variables: str) -> "subprocess.Popen[bytes]":
        account = self._cluster.account
        with (self._folder / "service.log").open("ab") as log:
            return subprocess.Popen(
                ["sh", "-euc", f"exec {command}"],
                stdout=log,
                stderr=log,
                env={**self.environment, **variables},
                cwd=self._folder,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
            )

    async def start(self) -> None:
        """Starts the server on this host's port, which base backups of the server also use."""
        with (self.data / "postgresql.auto.conf").open("a") as configuration:
            configuration.write(
                f"listen_addresses = '127.0.0.1'\nport = {self.port}\n"
                "unix_socket_directories = ''\n"
                "shared_buffers = 16MB\nfull_page_writes = on\n"
            )
        await self.run('pg_ctl start --wait --log="$PGDATA/server.log"')

    async def stop(self, mode: str = "fast") -> None:
        await self.run(f"pg_ctl stop --wait --mode={mode}")

    async def ask(self, statement: str, *values: Any) -> Any:
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=self.port,
            user=SUPERUSER,
            password=self._cluster.passwords[SUPERUSER],
            database=NAME,
        )
        try:
            return await connection.fetchval(statement, *values)
        finally:
            await connection.close()

    async def until(self, statement: str, *values: Any) -> None:
        await until(lambda: self.ask(statement, *values))

    async def stop_if_running(self) -> None:
        if (self.data / "postmaster.pid").exists():
            await self.stop("immediate")


def share(project: Path, folder: Path, account: SystemAccount | None) -> None:
    """Copies the scripts into a folder that the user who runs PostgreSQL can read and write."""
    shutil.copytree(project / "deploy", folder / "deploy")
    if account is not None:
        os.chown(folder, account.uid, account.gid)
