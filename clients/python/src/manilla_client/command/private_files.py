"""Files that only their owner may read: API keys and the position in the event list."""

import os
import tempfile
from pathlib import Path

from manilla_client.command.failure import CommandFailed

OTHERS = 0o077  # the permission bits of the group and of all other users


def config_folder() -> Path:
    return _folder("XDG_CONFIG_HOME", ".config")


def state_folder() -> Path:
    return _folder("XDG_STATE_HOME", ".local/state")


def _folder(variable: str, default: str) -> Path:
    given = os.environ.get(variable, "")
    # The XDG specification requires programs to ignore relative paths.
    base = Path(given) if given.startswith("/") else Path.home() / default
    return base / "manilla-client"


def read(path: Path) -> bytes | None:
    """Returns the file's content, or None if the file does not exist.

    Rejects a file that other users can read.
    """
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            if os.name == "posix" and (about.st_mode & OTHERS or about.st_uid != os.geteuid()):
                raise CommandFailed(
                    f"{path} must belong to you, and nobody else may read it: chmod 600 {path}"
                )
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from None


def write(path: Path, content: bytes) -> None:
    """Replaces the file atomically. A crash leaves either the old or the new content."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=path.parent)  # the file mode is 0600
        try:
            with open(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}.") from None
