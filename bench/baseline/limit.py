"""The rate limit: one row a merchant and address, counted by one statement."""

from datetime import UTC, datetime, timedelta

from baseline.models import RateWindow
from sqlalchemy import case
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

WINDOW = timedelta(seconds=60)


async def count(db: AsyncSession, bucket: str) -> RateWindow:
    now = datetime.now(UTC)
    has_ended = RateWindow.started_at <= now - WINDOW
    statement = (
        insert(RateWindow)
        .values(bucket=bucket, started_at=now, used=1)
        .on_conflict_do_update(
            index_elements=[RateWindow.bucket],
            set_={
                "started_at": case((has_ended, now), else_=RateWindow.started_at),
                "used": case((has_ended, 1), else_=RateWindow.used + 1),
            },
        )
        .returning(RateWindow)
    )
    return (await db.scalars(statement)).one()
