"""Decides which errors mean that the database is unavailable. No other module decides that."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg

from manilla.kit.database.connector import PASSING, Connector
from manilla.kit.errors import Refusal, Unavailable

# These errors mean a lost connection, a failover, a full disk or too many server connections.
# After one of these errors, it is unknown whether a commit in progress took effect.
DATABASE_FAULTS = (
    *PASSING,
    asyncpg.InterfaceError,
    # This error means that the session's server has been demoted from primary to standby.
    asyncpg.ReadOnlySQLTransactionError,
    # A standby raises this error for `rate_window`, a table that only a primary has.
    # The error also occurs if a migration has changed a table that a prepared SQL statement uses.
    asyncpg.FeatureNotSupportedError,
)


def means_unavailable(error: BaseException, raw: Any = None) -> bool:
    """Returns True if the database caused an error in a block that used the session `raw`.

    If a session is closed during use, the type of asyncpg's error depends on the step. For example,
    asyncpg raises AttributeError between preparing and executing a statement.
    """
    if isinstance(error, Refusal) or not isinstance(error, Exception):
        return False
    if isinstance(error, ValueError):
        # asyncpg.DataError is both an InterfaceError and a ValueError.
        # The error means that a value cannot be encoded, which is a bug in the caller.
        return False
    return isinstance(error, DATABASE_FAULTS) or (raw is not None and is_closed(raw))


def is_closed(raw: Any) -> bool:
    try:
        return bool(raw.is_closed())
    except asyncpg.InterfaceError:
        return True  # the pool has already taken back the closed session


def first_fault(error: BaseException) -> BaseException:
    """Returns the first error in the exception chain. After a lost connection, the rollback fails
    too.
    """
    while isinstance(error.__context__, DATABASE_FAULTS) and not isinstance(
        error.__context__, ValueError
    ):
        error = error.__context__
    return error


@contextmanager
def raise_unavailable(connector: Connector | None = None, raw: Any = None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not means_unavailable(error, raw):
            raise
        host = connector.host if connector else None
        raise Unavailable(host=host) from first_fault(error)
