"""The job of an open share: it releases the share in time, and pays the owner's claim."""

from datetime import UTC, datetime

from manilla.job_kinds import JobKind
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, Work
from manilla.splits import movements, store

CONCURRENCY = 4


class SplitTasks:
    def __init__(self, db: Database) -> None:
        self._db = db

    def job_handlers(self) -> dict[str, Work]:
        return {JobKind.SPLIT: Work(self.advance, concurrency=CONCURRENCY)}

    async def advance(self, job: Job) -> float | None:
        """Does what is due. Returns the seconds until the next check, or None if none is needed."""
        assert job.merchant_id is not None
        found = await store.share(self._db, job.merchant_id, job.subject)
        if found is None:
            return None
        async with self._db.transaction() as connection:
            payment = await store.payment(connection, found.owner_id, found.payment_trx_id)
            assert payment is not None, "an open share keeps its payment out of the archive"
            shares = await store.lock(connection, payment)
            share = next(each for each in shares if each.trx_id == job.subject)
            if share.withheld_minor and share.hold_until is not None:
                early = (share.hold_until - datetime.now(UTC)).total_seconds()
                if early > 0:  # the clocks of hosts differ
                    return early
                await movements.release(connection, payment, [share])
            if share.short_minor:
                share = await movements.pay_claim(connection, payment, share)
        return movements.CHECK_CLAIMS.total_seconds() if share.short_minor else None
