"""Postings of concurrent requests, folded into one statement."""

from functools import partial

from manilla.kit.batch import Batcher
from manilla.kit.db import Database
from manilla.ledger import queries
from manilla.ledger.posting import Posted, Posting


def batched_postings(db: Database) -> Batcher[Posting, Posted]:
    """Safe to submit again after Unavailable: what was posted answers as a duplicate."""
    return Batcher(partial(queries.post, db))
