"""Hourly statistics of API requests."""

from datetime import datetime

import msgspec

from manilla.kit.db import Database

HOURS = 24


class RequestHour(msgspec.Struct, frozen=True):
    hour: datetime  # start of the hour
    count: int
    failed: int  # server errors: 500 and above
    median_milliseconds: float | None
    slow_milliseconds: float | None  # 95th percentile

    @property
    def success_percent(self) -> float | None:
        return None if not self.count else 100 * (self.count - self.failed) / self.count


async def hourly(db: Database) -> list[RequestHour]:
    """Returns the last 24 hours including the current one, oldest first."""
    return await db.rows(
        RequestHour,
        """
        SELECT h.hour, coalesce(made.count, 0) AS count, coalesce(made.failed, 0) AS failed,
               made.shares[1]::float8 AS median_milliseconds,
               made.shares[2]::float8 AS slow_milliseconds
          FROM generate_series(date_trunc('hour', now()) - make_interval(hours => $1 - 1),
                               date_trunc('hour', now()), interval '1 hour') AS h (hour)
          LEFT JOIN (
               SELECT date_trunc('hour', at) AS hour, count(*) AS count,
                      count(*) FILTER (WHERE status >= 500) AS failed,
                      percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY milliseconds)
                      AS shares
                 FROM api_request
                WHERE at >= date_trunc('hour', now()) - make_interval(hours => $1 - 1)
                GROUP BY 1) AS made USING (hour)
         ORDER BY h.hour""",
        HOURS,
    )
