"""Settings of the embedded PostgreSQL server: `postgresql.conf` includes `manilla.conf`."""

import os
import re
from pathlib import Path

from manilla.kit.embedded.process import SystemAccount

NAME = "manilla.conf"
# The server does not listen on a TCP port. The port is only part of the socket's file name.
PORT = 5432
CONFIGURATION = f"""
# Written by Manilla at every start.
listen_addresses = ''
port = {PORT}
unix_socket_directories = '.'
shared_buffers = 256MB
max_connections = 100
max_wal_size = 4GB
checkpoint_timeout = 15min
wal_compression = on
random_page_cost = 1.1
jit = off
log_timezone = UTC
timezone = UTC
log_min_messages = warning
log_line_prefix = '%m [%p] %a '
# Statements contain user input, which must not be logged.
log_min_error_statement = panic
log_parameter_max_length_on_error = 0
"""
# Earlier versions wrote `include_if_exists`, which ignores a file that the server cannot read.
# Without its configuration file, the server would start with PostgreSQL's default settings.
_INCLUDED = re.compile(rf"^\s*include(_if_exists)?\b.*{re.escape(NAME)}", re.MULTILINE)


def write(folder: Path, account: SystemAccount | None) -> None:
    """Writes the settings to a file that the server's account can read, regardless of the umask.

    The server's account can write to the folder, so root must not follow a link in the folder.
    """
    part = folder / f"{NAME}.part"
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)
        if account is not None:
            os.fchown(descriptor, account.uid, account.gid)
        file.write(CONFIGURATION)
    part.rename(folder / NAME)


def is_included(folder: Path) -> bool:
    try:
        return bool(_INCLUDED.search((folder / "postgresql.conf").read_text(errors="replace")))
    except FileNotFoundError:
        return False


def include(folder: Path) -> None:
    """Makes `postgresql.conf` include our settings file. PostgreSQL does not start without that
    file.
    """
    descriptor = os.open(folder / "postgresql.conf", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "a") as file:
        file.write(f"\ninclude = '{NAME}'\n")


def finds_socket(folder: Path, directories: str) -> bool:
    """Returns True if a value of `unix_socket_directories` contains the cluster's folder."""
    named = {each.strip().strip('"') for each in directories.split(",")}
    return bool(named & {".", str(folder), str(folder.resolve())})
