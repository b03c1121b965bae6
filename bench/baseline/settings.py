"""The platform settings, read from the database for each request."""

from baseline.models import Setting
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession


async def load(db: AsyncSession) -> dict[str, str]:
    return {setting.key: setting.value for setting in await db.scalars(select(Setting))}
