"""The backup script never passes the database password as a command-line argument."""

import asyncio
import os
import subprocess
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest

from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from tests.support.rows import first_short

PASSWORDS = ["plain", "with:colon", "back\\slash", "a@b/c?d&e=f%g#h", "naïve ₦", "*", "%40"]


def _recording(real: Path, folder: Path) -> Path:
    """Creates wrappers for pg_dump and pg_restore that record their arguments."""
    folder.mkdir()
    for name in ("pg_dump", "pg_restore"):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "$@" >>"{folder}/called"\nexec "{real}/{name}" "$@"\n')
        program.chmod(0o755)
    return folder


async def _back_up(project: Path, programs: Path, file: Path, **variables: str) -> str:
    environment = {**os.environ, "PG_BIN": str(programs), **variables}
    environment["TMPDIR"] = str(file.parent)
    done = await asyncio.to_thread(
        subprocess.run,
        [project / "deploy" / "backup.sh", file],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return (programs / "called").read_text()


@pytest.mark.parametrize("in_query", [False, True], ids=["before the host", "in the query"])
@pytest.mark.parametrize("password", first_short(PASSWORDS))
@pytest.mark.usefixtures("settings")  # creates the database
async def test_the_password_is_passed_in_a_file_that_is_deleted_afterwards(
    cluster: Cluster, project: Path, tmp_path: Path, password: str, in_query: bool
) -> None:
    await _set_password(cluster, password)
    escaped, host = quote(password, safe=""), quote(str(cluster.socket_folder), safe="")
    url = (
        f"postgresql://backup_test@/{postgres.NAME}?password={escaped}&host={host}"
        if in_query
        else f"postgresql://backup_test:{escaped}@/{postgres.NAME}?host={host}"
    )
    programs = _recording(cluster.binaries, tmp_path / "bin")
    called = await _back_up(project, programs, tmp_path / "backup", MANILLA_MIGRATION_URL=url)
    assert "backup_test@" in called
    assert escaped not in called.replace(str(tmp_path), "")
    assert sorted(os.listdir(tmp_path)) == ["backup", "bin"]


@pytest.mark.usefixtures("settings")  # creates the database
async def test_the_url_can_be_in_a_file(cluster: Cluster, project: Path, tmp_path: Path) -> None:
    url_file = tmp_path / "url"
    url_file.write_text(f"{cluster.url(postgres.OWNER)}\n")
    programs = _recording(cluster.binaries, tmp_path / "bin")
    variables = {"MANILLA_MIGRATION_URL_FILE": str(url_file)}
    assert "--dbname=" in await _back_up(project, programs, tmp_path / "backup", **variables)
    assert (tmp_path / "backup").stat().st_size > 0


async def _set_password(cluster: Cluster, password: str) -> None:
    connection = await asyncpg.connect(cluster.url(postgres.SUPERUSER))
    try:
        await connection.execute(
            "DO $$ BEGIN CREATE ROLE backup_test LOGIN SUPERUSER;"
            " EXCEPTION WHEN duplicate_object THEN END $$"
        )
        literal = password.replace("'", "''")
        await connection.execute(f"ALTER ROLE backup_test PASSWORD '{literal}'")
    finally:
        await connection.close()
