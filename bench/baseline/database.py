"""The baseline's database engine and sessions. The pool is as large as in Manilla's API process."""

import os

from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

CONNECTIONS = 10

engine = create_async_engine(
    os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://", 1),
    pool_size=CONNECTIONS,
    max_overflow=0,
)
new_session = async_sessionmaker(engine, expire_on_commit=False)
