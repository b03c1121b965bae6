"""Reconciles each provider's balance every hour, in one worker at a time."""

import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from manilla import metrics
from manilla.kit import jobs
from manilla.kit.database.connections import Database
from manilla.kit.display import money
from manilla.kit.jobs import Job, Work
from manilla.kit.money import Money
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.platform.settings import CurrentSettings
from manilla.providers.rails import Rails
from manilla.reconciliation import balances

RECONCILE = "reconcile"
CONCURRENCY = 4
EVERY_SECONDS = 3600.0
# Delay after a comparison that failed, or that found a difference for the first time.
SOON_SECONDS = 300.0
SPREAD = 0.1  # random variation of the delay, so that providers are queried at different times


# Opens a connection with a longer SQL timeout, because summing a balance reads every ledger entry.
Patient = Callable[[], AbstractAsyncContextManager[Database]]


class BalanceTasks:
    def __init__(
        self, db: Database, platform: CurrentSettings, rails: Rails, patient: Patient
    ) -> None:
        self._db = db
        self._platform = platform
        self._rails = rails
        self._patient = patient

    def job_handlers(self) -> dict[str, Work]:
        return {RECONCILE: Work(self.compare, concurrency=CONCURRENCY)}

    async def schedule(self) -> None:
        """Creates a job for each provider that has no job. The job's lease lets only one worker run
        it.

        Providers' sandbox accounts are omitted, because their money is not in our ledger.

        Each worker runs this task, so that a worker does not keep the difference that it found if
        another worker has compared the balance since then.
        """
        differences = await balances.last_differences(self._db)
        for provider, current in self._rails.accounts.items():
            is_expected = current.is_valid and not current.is_sandbox
            metrics.reconciliation_expected.labels(provider).set(is_expected)
            for difference in differences.get(provider, []):
                gauge = metrics.clearing_difference.labels(provider, difference.currency)
                gauge.set(0 if current.is_sandbox else float(difference.amount))
            if is_expected:
                seconds = random.uniform(0, EVERY_SECONDS * SPREAD)  # noqa: S311
                await jobs.put_missing(self._db, RECONCILE, [provider], in_seconds=seconds)

    async def compare(self, job: Job) -> float | None:
        provider = job.subject
        if self._rails.adapter(provider) is None:
            return None
        async with self._patient() as db:
            report = await balances.compare(db, self._rails, provider)
        await self._report_low_balance(provider, report.balance)
        if report.result != "agrees" and not report.is_confirmed:
            return SOON_SECONDS
        return EVERY_SECONDS * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311

    async def _report_low_balance(self, provider: str, balance: Money | None) -> None:
        wanted = None if balance is None else self._platform.now.low_balance_in(balance.currency)
        if balance is None or wanted is None or balance >= wanted:
            return
        facts = {"provider": provider, "balance": money(balance), "wanted": money(wanted)}
        async with self._db.transaction() as connection:
            await outbox.put(connection, MailKind.BALANCE_LOW, facts, path="/console/providers")
