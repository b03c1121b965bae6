"""Runs whole SQL scripts from an alembic migration: asyncpg prepares only single statements."""

from alembic import op


def run(script: str) -> None:
    connection = op.get_bind().connection.dbapi_connection
    assert connection is not None
    connection.run_async(lambda driver: driver.execute(script))
