"""Queries the database server's status for operators."""

from datetime import datetime

import msgspec

from manilla.kit.database.connections import Database


class ConnectedProgram(msgspec.Struct, frozen=True):
    """The database connections of all programs with the same name, across hosts."""

    name: str
    hosts: int
    connections: int
    active: int
    since: datetime | None


class DatabaseServer(msgspec.Struct, frozen=True):
    version: str
    size_bytes: int
    started_at: datetime
    is_standby: bool
    connections: int
    connections_max: int


class Replica(msgspec.Struct, frozen=True):
    name: str
    state: str | None  # None if our database role is not allowed to see the state
    sync_state: str | None
    lag_seconds: float | None


class Replication(msgspec.Struct, frozen=True):
    """What the server still has to send to its standbys, archives and other subscribers."""

    inactive: int  # the number of replication slots without a connection
    behind_bytes: int  # the WAL that the slowest subscriber has not confirmed


class WalArchive(msgspec.Struct, frozen=True):
    is_on: bool
    archived_at: datetime | None  # when the last WAL segment was archived
    failed_at: datetime | None

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to archive a segment failed."""
        if self.failed_at is None:
            return False
        return self.archived_at is None or self.failed_at > self.archived_at


async def archive(db: Database) -> WalArchive:
    found = await db.row(
        WalArchive,
        """
        SELECT current_setting('archive_mode') <> 'off' AS is_on,
               last_archived_time AS archived_at, last_failed_time AS failed_at
          FROM pg_stat_archiver""",
    )
    assert found is not None
    return found


async def programs(db: Database) -> list[ConnectedProgram]:
    return await db.rows(
        ConnectedProgram,
        """
        SELECT application_name AS name, count(DISTINCT client_addr)::int AS hosts,
               count(*) AS connections, count(*) FILTER (WHERE state = 'active') AS active,
               min(backend_start) AS since
          FROM pg_stat_activity
         WHERE datname = current_database()
         GROUP BY application_name ORDER BY application_name""",
    )


async def server(db: Database) -> DatabaseServer:
    found = await db.row(
        DatabaseServer,
        """
        SELECT current_setting('server_version') AS version,
               pg_database_size(current_database()) AS size_bytes,
               pg_postmaster_start_time() AS started_at,
               pg_is_in_recovery() AS is_standby,
               (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL) AS connections,
               current_setting('max_connections')::int AS connections_max""",
    )
    assert found is not None
    return found


async def replicas(db: Database) -> list[Replica]:
    return await db.rows(
        Replica,
        """
        SELECT coalesce(application_name, '') AS name, state, sync_state,
               extract(epoch FROM replay_lag)::float8 AS lag_seconds
          FROM pg_stat_replication ORDER BY application_name""",
    )


async def replication(db: Database) -> Replication:
    """Reads the replication slots, which every role may read, unlike `pg_stat_replication`."""
    found = await db.row(
        Replication,
        """
        SELECT count(*) FILTER (WHERE NOT active) AS inactive,
               coalesce(greatest(max(pg_wal_lsn_diff(
                 CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                      ELSE pg_current_wal_lsn() END,
                 coalesce(confirmed_flush_lsn, restart_lsn))), 0), 0)::int8 AS behind_bytes
          FROM pg_replication_slots WHERE NOT temporary""",
    )
    assert found is not None
    return found
