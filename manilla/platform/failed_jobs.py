"""Retries failed jobs when an administrator requests it."""

from manilla.audit import audit
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.jobs import failed


class NotFailedJob(Refusal):
    status, code = 409, "NOT_PARKED"
    message = "This job is no longer a failed job: somebody else has retried it, or it is done."


async def retry(db: Database, merchant_id: int, kind: str, subject: str) -> None:
    """Makes a failed job due now, with a full set of retries."""
    async with db.transaction() as connection:
        if not await failed.release(connection, merchant_id, kind, subject):
            raise NotFailedJob
        await audit.record(
            connection,
            "job.retry",
            f"job:{kind}:{subject}",
            merchant_id=merchant_id or None,
        )
