"""A file in the data folder records whether a demo history is wanted, and whether it is complete.

The file is written together with the demo merchant, so a data folder that already has a demo
merchant never gets a history.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from manilla_simulator.history.clock import MovedClock

NAME = "demo-history.json"
# The merchants are created this long before the end of the demo history.
OPENED = timedelta(days=31)


class HistoryFile(msgspec.Struct, frozen=True):
    until: datetime  # The history ends at this time, when the data folder was created.
    is_complete: bool = False
    share: float = 1.0  # The share of ordinary transactions to create. Tests create only a few.


def read(folder: Path) -> HistoryFile | None:
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=HistoryFile)
    except FileNotFoundError:
        return None


@contextmanager
def begun(folder: Path | None) -> Iterator[None]:
    """Starts the history, and sets the clock to the time at which its merchants are created.

    Does nothing if `folder` is None.
    """
    if folder is None:
        yield
        return
    history = read(folder) or _write(folder, HistoryFile(datetime.now(UTC)))
    clock = MovedClock()
    clock.install()
    with clock.at(history.until - OPENED):
        yield


def complete(folder: Path, history: HistoryFile) -> HistoryFile:
    return _write(folder, msgspec.structs.replace(history, is_complete=True))


def _write(folder: Path, history: HistoryFile) -> HistoryFile:
    new = folder / f"{NAME}.new"
    new.write_bytes(msgspec.json.encode(history))
    new.rename(folder / NAME)
    return history
