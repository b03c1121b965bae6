"""Finds the trace that a job continues: the trace of the request that created the transaction."""

import re

from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job
from manilla.ledger import trx_ids
from manilla.transaction_types import TYPES

# A subject is a transaction's id, possibly followed by a charge's number or an endpoint's id.
_AFTER_ID = re.compile("[-/]")
_PARENT = " UNION ALL ".join(
    f"SELECT traceparent FROM {each.name} WHERE merchant_id = $1 AND trx_id = $2" for each in TYPES
)


def find_transaction(job: Job) -> str | None:
    """Returns the id of the job's transaction, or None if the job has another subject."""
    trx_id = _AFTER_ID.split(job.subject, maxsplit=1)[0]
    return None if trx_ids.merchant_of(trx_id) is None else trx_id


async def find_parent(db: Database, job: Job) -> str | None:
    """Returns the `traceparent` that was stored with the job's transaction, or None."""
    trx_id = find_transaction(job)
    if trx_id is None:
        return None
    parent: str | None = await db.value(_PARENT, job.merchant_id, trx_id)
    return parent
