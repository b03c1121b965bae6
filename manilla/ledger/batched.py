"""Postings of concurrent requests, folded into one statement."""

from collections.abc import Sequence

from manilla.kit.batch import Batcher
from manilla.kit.db import Database
from manilla.ledger import queries
from manilla.ledger.posting import Posted, Posting


def batched_postings(db: Database) -> Batcher[Posting, Posted]:
    """Safe to submit again after Unavailable: what was posted answers as a duplicate."""

    async def post(postings: Sequence[Posting]) -> Sequence[Posted]:
        return await queries.post(db, postings)

    return Batcher(post)
