"""Finds transactions in archive files."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from manilla.kit.errors import Refusal
from manilla.ledger import trx_ids
from manilla.proofs.archive.months import RESTORE, StoredMonth
from manilla.proofs.archive.writing import TRANSACTIONS_FILE
from manilla.proofs.verify import ArchivedMonth


class NotInArchive(Refusal):
    message = "The archive does not contain this transaction."


class MonthNotReadable(Refusal):
    message = "A month of the archive cannot be read."


def read_transactions(folder: Path) -> Iterator[bytes]:
    """Yields the lines of a month's transactions."""
    with gzip.open(folder / TRANSACTIONS_FILE) as file:
        yield from file


def find(archive: Path, stored: Sequence[StoredMonth], trx_id: str) -> dict[str, Any]:
    """Returns the transaction that has this id, or whose commission, charge or refund has it.

    A transaction is in the month of its id, or in a later month if something about it was open.
    """
    moment = trx_ids.moment_of(trx_id)
    if moment is None:
        raise NotInArchive(f"{trx_id} is not a transaction id.")
    for month in stored:
        if month.until > moment and (content := _find_in(month.files(archive), trx_id)):
            return {"month": month.name, **content}
    raise NotInArchive(f"The archive does not contain {trx_id}.")


def _find_in(month: ArchivedMonth, trx_id: str) -> dict[str, Any] | None:
    """Returns the transaction, or None if it is not in this month.

    Raises an error if the files are missing or were changed, so that no changed row is shown.
    """
    text = json.dumps(trx_id).encode()
    try:
        lines = (json.loads(line) for line in read_transactions(month.folder) if text in line)
        found = next((content for content in lines if trx_id in content["ids"]), None)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        problem: str | None = f"{error}."
    else:
        problem = next(month.find_problems(), None) if found else None
    if problem is not None:
        raise MonthNotReadable(f"{month.month} cannot be read: {problem} {RESTORE}")
    return found
