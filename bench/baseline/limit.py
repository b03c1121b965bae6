"""The baseline's rate limit: one row per merchant and IP address, counted by one statement."""

from datetime import UTC, datetime, timedelta

from baseline.models import Credential, RateWindow
from fastapi import HTTPException, Request, Response
from sqlalchemy import case
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

WINDOW = timedelta(seconds=60)


async def take(
    db: AsyncSession, request: Request, response: Response, caller: Credential, allowed: int
) -> None:
    """Counts a request and commits immediately, because the merchant's other requests need this
    row.

    The table is unlogged, so the commit does not wait for the disk.
    """
    window = await _count(db, f"{caller.merchant_id}:{caller.environment}:{request.client.host}")
    await db.commit()
    if window.used > allowed:
        raise HTTPException(429, "Too many requests.")
    seconds = max(1, int((window.started_at + WINDOW - datetime.now(UTC)).total_seconds()))
    response.headers["ratelimit"] = f'"merchant";r={allowed - window.used};t={seconds}'


async def _count(db: AsyncSession, bucket: str) -> RateWindow:
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
