"""Finds transactions in archive files."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from manilla.kit.errors import Refusal
from manilla.ledger import trx_ids
from manilla.proofs.archive.months import StoredMonth
from manilla.proofs.archive.writing import TRANSACTIONS_FILE


class NotInArchive(Refusal):
    message = "The archive does not contain this transaction."


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
    text = json.dumps(trx_id).encode()
    for month in stored:
        if month.until > moment:
            for line in read_transactions(archive / month.name):
                if text in line and trx_id in (content := json.loads(line))["ids"]:
                    return {"month": month.name, **content}
    raise NotInArchive(f"The archive does not contain {trx_id}.")
