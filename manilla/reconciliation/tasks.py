"""Imports and compares statements every night.

For providers with a statement API, the last days are imported. For other providers, people import
files, and these are only compared again, so that old differences become cases.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import date, datetime, timedelta

from manilla.kit import jobs
from manilla.kit.clock import LAGOS, start_of_day
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, Work
from manilla.providers.port import EVERY_MOVEMENT
from manilla.providers.rails import Rails
from manilla.reconciliation import importing

STATEMENT, COMPARISON = "statement", "statement.compare"
CONCURRENCY = 2
CURRENCY = "NGN"
# Each day is imported again for a week, because providers deliver or return some transfers late.
DAYS = 7
NIGHT_HOUR = 1  # the hour at which the import starts, in Lagos time

Patient = Callable[[], AbstractAsyncContextManager[Database]]


class StatementTasks:
    def __init__(self, db: Database, rails: Rails, patient: Patient) -> None:
        self._db = db
        self._rails = rails
        self._patient = patient

    def job_handlers(self) -> dict[str, Work]:
        return {
            STATEMENT: Work(self.import_day, concurrency=CONCURRENCY),
            COMPARISON: Work(self.compare_again, concurrency=CONCURRENCY),
        }

    async def schedule(self) -> None:
        """Creates a job for each account and day that has not been imported since last night.

        An account whose statements are files has one job, which runs every night.
        """
        now = datetime.now(LAGOS)
        night = start_of_day(now.date()) + timedelta(hours=NIGHT_HOUR)
        if now < night:
            return
        days = [now.date() - timedelta(days=ago) for ago in range(1, DAYS + 1)]
        for provider, current in self._rails.accounts.items():
            has_statements = bool(current.kind.capabilities.statements)
            if not has_statements:
                await self._schedule_comparison(provider)
            elif current.is_valid and not current.is_sandbox:
                await self._schedule(provider, days, night)

    async def _schedule_comparison(self, provider: str) -> None:
        has_days = "SELECT true FROM statement_day WHERE provider = $1 LIMIT 1"
        if await self._db.has_row(has_days, provider):
            await jobs.put_missing(self._db, COMPARISON, [provider])

    async def _schedule(self, provider: str, days: list[date], night: datetime) -> None:
        records = await self._db.records(
            """
            SELECT wanted.day FROM unnest($2::date[]) AS wanted (day)
             WHERE NOT EXISTS (SELECT FROM statement_day d
                                WHERE d.provider = $1 AND d.currency::text = $4
                                  AND d.day = wanted.day AND d.imported_at >= $3)""",
            *(provider, days, night, CURRENCY),
        )
        subjects = [f"{provider}:{record['day']}" for record in records]
        await jobs.put_missing(self._db, STATEMENT, subjects)

    async def import_day(self, job: Job) -> float | None:
        provider, _, day = job.subject.partition(":")
        adapter = self._rails.adapter(provider)
        if adapter is None:
            return None
        kinds = self._rails.credentials(provider).kind.capabilities.statements
        wanted = date.fromisoformat(day)
        async with self._patient() as db:
            await importing.import_from_provider(db, adapter, kinds, wanted, wanted, CURRENCY)
        return None

    async def compare_again(self, job: Job) -> float:
        now = datetime.now(LAGOS)
        async with self._patient() as db:
            await importing.compare(db, job.subject, now, EVERY_MOVEMENT)
        tomorrow = start_of_day(now.date() + timedelta(days=1)) + timedelta(hours=NIGHT_HOUR)
        return (tomorrow - now).total_seconds()
