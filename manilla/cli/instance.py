"""Finds the instance that a command is about: by its data folder, or by its database's address."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.errors import Refusal, Unavailable
from manilla.platform import master_key
from manilla.settings import Mode, Settings, data_folder

Data = Annotated[
    Path | None,
    typer.Option(
        "--data", help="The instance's data folder.  [default: $MANILLA_DATA or .manilla]"
    ),
]

Result = TypeVar("Result")

STATEMENT_SECONDS = 3600


class InstanceRefusal(Refusal):
    message = "The instance cannot be used."


class Running(msgspec.Struct, frozen=True):
    """What a running instance writes into its data folder, for commands to find it by."""

    pid: int
    base_url: str
    database_url: str
    migration_url: str


class Tools(msgspec.Struct, frozen=True):
    """What an operator's command works with."""

    db: Database
    keyring: Keyring


def run(data: Path | None, command: Callable[[Tools], Coroutine[Any, Any, Result]]) -> Result:
    async def with_tools() -> Result:
        async with _opened(data) as tools:
            return await command(tools)

    return asyncio.run(with_tools())


@contextlib.asynccontextmanager
async def _opened(data: Path | None) -> AsyncIterator[Tools]:
    url, keys, missing = _locate(data)
    try:
        db = await Database.open(
            url, size=2, name="manilla command", statement_seconds=STATEMENT_SECONDS
        )
    except Unavailable as unavailable:
        raise InstanceRefusal(missing) from unavailable
    keyring = Keyring(keys)
    try:
        await master_key.prove(db, keyring)
        yield Tools(db, keyring)
    finally:
        await db.close()


def _locate(data: Path | None) -> tuple[str, tuple[bytes, ...], str]:
    """The database, the master keys, and what to say when the database does not answer."""
    folder = data_folder(data)
    running = read_running(folder)
    named = os.environ.get("MANILLA_DATABASE_URL")
    if named and (data is None or running is None):
        environment = dict(os.environ)
        environment.setdefault("MANILLA_BASE_URL", "http://127.0.0.1")
        if (folder / "master.key").exists():
            environment.setdefault("MANILLA_MASTER_KEY", (folder / "master.key").read_text())
        settings = Settings.read(environment, assumed_mode=Mode.PRODUCTION)
        return named, settings.master_keys, "The database of MANILLA_DATABASE_URL does not answer."
    if running is None:
        raise InstanceRefusal(
            f"No instance is running in {folder}: start it with `manilla up --data {folder}`, "
            "or name another with --data or MANILLA_DATABASE_URL."
        )
    return running.database_url, (read_master_key(folder),), f"No instance is running in {folder}."


def read_running(folder: Path) -> Running | None:
    try:
        return msgspec.json.decode((folder / "instance.json").read_bytes(), type=Running)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise InstanceRefusal(f"{folder} belongs to another user.") from error


def write_running(folder: Path, running: Running) -> None:
    file = folder / "instance.json"
    file.touch(mode=0o600)
    file.write_bytes(msgspec.json.encode(running))


def read_master_key(folder: Path) -> bytes:
    """The master key of development mode; production's comes from the environment."""
    named = os.environ.get("MANILLA_MASTER_KEY")
    return crypto.decode_key(named or (folder / "master.key").read_text())


def ensure_master_key(folder: Path) -> None:
    file = folder / "master.key"
    if not os.environ.get("MANILLA_MASTER_KEY") and not file.exists():
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(crypto.generate_key())


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Holds the data folder for this process. The kernel lets go of it however we end."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            running = read_running(folder)
            where = f" at {running.base_url} (process {running.pid})" if running else ""
            raise InstanceRefusal(f"Manilla is already running in {folder}{where}.") from None
        yield
