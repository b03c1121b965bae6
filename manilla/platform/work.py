"""Work that stopped: a person has it tried again."""

from manilla.audit import audit
from manilla.kit import parked
from manilla.kit.db import Database
from manilla.kit.errors import Refusal


class NotParked(Refusal):
    status, code = 409, "NOT_PARKED"
    message = "This job is not parked any more: somebody was faster, or it is done."


async def retry(db: Database, merchant_id: int, kind: str, subject: str) -> None:
    """Runs a parked job again, as if it had never failed."""
    async with db.transaction() as connection:
        if not await parked.release(connection, merchant_id, kind, subject):
            raise NotParked
        await audit.record(
            connection,
            "job.retry",
            f"job:{kind}:{subject}",
            merchant_id=merchant_id or None,
        )
