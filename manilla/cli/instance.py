"""Finds the instance that a command works on, by its data folder or its database URL."""

import asyncio
import contextlib
import fcntl
import functools
import inspect
import os
import pwd
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Annotated, Any, Concatenate, TypeVar

import asyncpg
import msgspec
import typer

from manilla import secret_sources
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.cells.fence_trigger import MerchantElsewhere, refused_when_fenced
from manilla.cli.output import Json, Output
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal, Unavailable
from manilla.platform import master_key
from manilla.settings import Mode, Settings, apply_limits, data_folder


def _given_anywhere(context: typer.Context, given: Path | None) -> Path | None:
    """Returns the data folder that was given after or before the command."""
    return given or context.find_root().params.get("data")


Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        callback=_given_anywhere,
        help="The instance's data folder.  [default: $MANILLA_DATA or .manilla]",
    ),
]

COMMON_OPTIONS = (
    inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json),
    inspect.Parameter("data", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Data),
)

Result = TypeVar("Result")

STATEMENT_SECONDS = 3600


class InstanceRefusal(Refusal):
    message = "The instance cannot be used."


class Running(msgspec.Struct, frozen=True):
    """The contents of the file `instance.json`, which commands use to find a running instance."""

    pid: int
    mode: Mode
    base_url: str
    database_url: str
    migration_url: str


class Tools(Output, frozen=True):
    """The database and settings that a command uses, and methods to print its output."""

    db: Database
    keyring: Keyring
    settings: Settings

    @property
    def is_production_mode(self) -> bool:
        return not self.settings.is_development

    @property
    def base_url(self) -> str:
        return self.settings.base_url


CommandFunction = Callable[Concatenate[Tools, ...], Coroutine[Any, Any, None]]


def command(
    group: typer.Typer | None = None, name: str | None = None
) -> Callable[[CommandFunction], Callable[..., None]]:
    """Decorates an async function as a command, and adds the command to the group.

    The function's parameters after `tools` are the command's arguments and options. The command
    also gets the options --json and --data. Commands that must validate their options before the
    instance is opened are plain Typer commands that call `run`.
    """

    def decorate(function: CommandFunction) -> Callable[..., None]:
        @functools.wraps(function)
        def run_function(*, as_json: bool, data: Path | None, **options: Any) -> None:
            run(data, lambda tools: function(tools, **options), as_json=as_json)

        _tools, *options = inspect.signature(function).parameters.values()
        # Typer derives the command's options from this signature.
        run_function.__signature__ = inspect.Signature([*options, *COMMON_OPTIONS])  # type: ignore[attr-defined]
        if group is not None:
            group.command(name)(run_function)
        return run_function

    return decorate


def run(
    data: Path | None,
    work: Callable[[Tools], Coroutine[Any, Any, Result]],
    *,
    as_json: bool = False,
) -> Result:
    async def with_tools() -> Result:
        async with _opened(data, as_json) as tools:
            with refused_when_fenced(MerchantElsewhere):
                return await work(tools)

    with acting(Actor(ActorKind.COMMAND, None, _user_name())):
        return asyncio.run(with_tools())


def _user_name() -> str:
    """Returns the name of the operating system user who runs the command.

    Environment variables are not used, because users can set them to any value.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


@contextlib.asynccontextmanager
async def _opened(data: Path | None, as_json: bool) -> AsyncIterator[Tools]:
    settings, missing = _locate(data)
    try:
        db = await Database.open(
            settings.database_url,
            size=2,
            name="manilla command",
            statement_seconds=STATEMENT_SECONDS,
        )
    except Unavailable as unavailable:
        raise InstanceRefusal(f"{missing} {unavailable.facts['cause']}.") from unavailable
    keyring = Keyring(settings.master_keys)
    try:
        await _verify_key(db, keyring)
        yield Tools(as_json, db, keyring, settings)
    finally:
        await db.close()


async def _verify_key(db: Database, keyring: Keyring) -> None:
    try:
        await master_key.verify(db, keyring)
    except asyncpg.UndefinedTableError as error:
        from manilla.sql.migrate import NotMigrated

        raise NotMigrated from error


def locate(data: Path | None) -> Settings:
    """Returns the instance's settings, for commands that do not use the master key."""
    return _locate(data)[0]


def _locate(data: Path | None) -> tuple[Settings, str]:
    """Returns the instance's settings, and the error message for an unavailable database."""
    folder = data_folder(data)
    environment = dict(os.environ)
    silent = "The database at MANILLA_DATABASE_URL does not respond."
    is_database_given = secret_sources.is_given(environment, "MANILLA_DATABASE_URL")
    if data is not None or not is_database_given:
        running = read_running(folder)
        if running is not None:
            secret_sources.override(environment, environment_of(folder))
            silent = (
                f"The database of the instance in {folder} does not respond; it may be restarting."
                if Path(f"/proc/{running.pid}").exists()
                else f"No instance is running in {folder}."
            )
        elif not is_database_given:
            raise InstanceRefusal(
                f"No instance is running in {folder}: start it with `manilla up --data {folder}`, "
                "or choose another instance with --data or MANILLA_DATABASE_URL."
            )
    environment.setdefault("MANILLA_BASE_URL", "http://127.0.0.1")
    settings = Settings.read(environment, assumed_mode=Mode.PRODUCTION)
    apply_limits(environment, settings.mode)
    return settings, silent


def read_running(folder: Path) -> Running | None:
    try:
        return msgspec.json.decode((folder / "instance.json").read_bytes(), type=Running)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise InstanceRefusal(f"{folder} belongs to another user.") from error


def environment_of(folder: Path) -> dict[str, str]:
    """Returns the environment variables that a program needs to use the running instance."""
    running = read_running(folder)
    if running is None:
        raise InstanceRefusal(f"No instance is running in {folder}.")
    environment = {
        "MANILLA_MODE": running.mode,
        "MANILLA_BASE_URL": running.base_url,
        "MANILLA_DATABASE_URL": running.database_url,
        "MANILLA_MIGRATION_URL": running.migration_url,
    }
    file = folder / "master.key"
    if not secret_sources.is_given(os.environ, "MANILLA_MASTER_KEY") and file.exists():
        environment["MANILLA_MASTER_KEY"] = file.read_text()
    return environment


def write_running(folder: Path, running: Running) -> None:
    file = folder / "instance.json"
    file.touch(mode=0o600)
    file.write_bytes(msgspec.json.encode(running))


def ensure_master_key(folder: Path) -> None:
    file = folder / "master.key"
    if not secret_sources.is_given(os.environ, "MANILLA_MASTER_KEY") and not file.exists():
        if (folder / "postgres" / "PG_VERSION").exists():
            raise InstanceRefusal(
                f"{file} is missing. It encrypts the secrets in this folder's database. "
                "Restore the file, or set MANILLA_MASTER_KEY."
            )
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(crypto.generate_key())


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Locks the data folder. The operating system releases the lock when the process ends."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            # Restrict the permissions of an empty folder that another program has created.
            with contextlib.suppress(PermissionError):
                folder.chmod(0o700)
        lock_file = (folder / "lock").open("w")
    except OSError as error:
        raise InstanceRefusal(
            f"{folder} cannot be used as a data folder: {error.strerror}."
        ) from error
    with lock_file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            running = read_running(folder)
            where = f" at {running.base_url} (process {running.pid})" if running else ""
            raise InstanceRefusal(f"Manilla is already running in {folder}{where}.") from None
        try:
            yield
        finally:
            (folder / "instance.json").unlink(missing_ok=True)
