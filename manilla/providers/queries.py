"""SQL queries for providers."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.providers.port import Direction

# A rail is degraded if it conclusively answers less than this share of its calls, and fails to
# answer at least this many, so that a single timeout on a quiet day does not count.
DEGRADED_SHARE = 0.9
DEGRADED_FAILURES = 3


class _Sealed(msgspec.Struct, frozen=True):
    provider: str
    sealed: bytes


class RailState(StrEnum):
    UP = "up"
    DEGRADED = "degraded"  # called, but many calls get no conclusive response
    DOWN = "down"  # not called


class RailHealth(msgspec.Struct, frozen=True):
    """A rail's statistics over the last minutes, for display."""

    provider: str
    direction: str
    is_down: bool
    calls: int
    # Fraction of calls with a conclusive result, or None if there were no calls.
    success_share: float | None
    mean_milliseconds: int | None
    last_error: str
    last_error_at: datetime | None

    @property
    def state(self) -> RailState:
        if self.is_down:
            return RailState.DOWN
        share = 1.0 if self.success_share is None else self.success_share
        is_degraded = share < DEGRADED_SHARE and self.calls * (1 - share) >= DEGRADED_FAILURES
        return RailState.DEGRADED if is_degraded else RailState.UP


async def sealed_credentials(db: Database | Connection) -> dict[str, bytes]:
    rows = await db.rows(_Sealed, "SELECT provider, sealed FROM provider_credentials")
    return {row.provider: row.sealed for row in rows}


async def lock_sealed_credentials(connection: Connection, provider: str) -> bytes | None:
    sealed: bytes | None = await connection.value(
        "SELECT sealed FROM provider_credentials WHERE provider = $1 FOR UPDATE", provider
    )
    return sealed


async def store_sealed_credentials(connection: Connection, provider: str, sealed: bytes) -> None:
    await connection.execute(
        """
        INSERT INTO provider_credentials (provider, sealed) VALUES ($1, $2)
            ON CONFLICT (provider) DO UPDATE SET sealed = excluded.sealed, updated_at = now()""",
        provider,
        sealed,
    )


async def delete_credentials(connection: Connection, provider: str) -> bool:
    """Deletes an account's credentials. Returns False if there were no credentials."""
    return await connection.has_row(
        "DELETE FROM provider_credentials WHERE provider = $1 RETURNING true", provider
    )


async def rails_down(db: Database) -> dict[tuple[str, Direction], datetime]:
    """Returns the rails that are down, with the time when each went down."""
    records = await db.records(
        "SELECT provider, direction, changed_at FROM rail_state WHERE is_down"
    )
    return {(r["provider"], Direction(r["direction"])): r["changed_at"] for r in records}


async def set_rail_state(
    connection: Connection, provider: str, direction: Direction, is_down: bool
) -> None:
    await connection.execute(
        """
        INSERT INTO rail_state AS s (provider, direction, is_down) VALUES ($1, $2, $3)
            ON CONFLICT (provider, direction)
            DO UPDATE SET is_down = excluded.is_down,
                          changed_at = CASE WHEN s.is_down = excluded.is_down
                                            THEN s.changed_at ELSE now() END""",
        provider,
        direction,
        is_down,
    )


async def drained_rails(db: Database) -> dict[str, datetime]:
    """Returns the accounts that get no new payouts, with the time when each was stopped."""
    records = await db.records(
        """
        SELECT provider, drained_since FROM rail_state
         WHERE direction = 'pay_out' AND drained_since IS NOT NULL"""
    )
    return {record["provider"]: record["drained_since"] for record in records}


async def set_drained(connection: Connection, provider: str, *, is_drained: bool) -> bool:
    """Stops or permits new payouts through an account. Returns False if nothing changed."""
    return await connection.has_row(
        """
        INSERT INTO rail_state AS s (provider, direction, drained_since)
        VALUES ($1, 'pay_out', CASE WHEN $2 THEN now() END)
            ON CONFLICT (provider, direction)
            DO UPDATE SET drained_since = excluded.drained_since
         WHERE (s.drained_since IS NULL) <> (excluded.drained_since IS NULL)
        RETURNING true""",
        *(provider, is_drained),
    )


async def add_rail_figures(
    db: Database, provider: str, direction: Direction, figures: dict[str, Any]
) -> None:
    """Adds the rail's calls to the counts of the current minute, and saves its latest error."""
    async with db.transaction() as connection:
        await connection.execute(
            """
            INSERT INTO rail_minute AS m
                   (provider, direction, minute, done, refused, unknown, milliseconds)
            VALUES ($1, $2, date_trunc('minute', now()), $3, $4, $5, $6)
                ON CONFLICT (provider, direction, minute)
                DO UPDATE SET done = m.done + excluded.done,
                              refused = m.refused + excluded.refused,
                              unknown = m.unknown + excluded.unknown,
                              milliseconds = m.milliseconds + excluded.milliseconds""",
            provider,
            direction,
            figures["done"],
            figures["refused"],
            figures["unknown"],
            figures["milliseconds"],
        )
        if figures["last_error"]:
            await connection.execute(
                """
                INSERT INTO rail_state (provider, direction, last_error, last_error_at)
                VALUES ($1, $2, $3, now())
                    ON CONFLICT (provider, direction)
                    DO UPDATE SET last_error = excluded.last_error,
                                  last_error_at = excluded.last_error_at""",
                provider,
                direction,
                figures["last_error"],
            )


async def rail_health(db: Database, minutes: int) -> list[RailHealth]:
    return await db.rows(
        RailHealth,
        """
        SELECT provider, direction, coalesce(bool_or(s.is_down), false) AS is_down,
               coalesce(sum(m.done + m.refused + m.unknown), 0)::bigint AS calls,
               (sum(m.done + m.refused)::float8
                / nullif(sum(m.done + m.refused + m.unknown), 0)) AS success_share,
               (sum(m.milliseconds)
                / nullif(sum(m.done + m.refused + m.unknown), 0))::int AS mean_milliseconds,
               coalesce(max(s.last_error), '') AS last_error,
               max(s.last_error_at) AS last_error_at
          FROM rail_state s
          FULL JOIN (SELECT * FROM rail_minute
                      WHERE minute > now() - make_interval(mins => $1)) AS m
               USING (provider, direction)
         GROUP BY provider, direction ORDER BY provider, direction""",
        minutes,
    )


async def delete_old_figures(db: Database) -> None:
    await db.execute("DELETE FROM rail_minute WHERE minute < now() - interval '7 days'")
