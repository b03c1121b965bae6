"""Metrics of the whole instance. Every worker measures them and gets the same result.

If the subject of a metric no longer exists, the value is set to zero, so that its alert ends.
"""

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime

import msgspec

from manilla import metrics
from manilla.audit.stream import targets
from manilla.cases.cases import CaseKind
from manilla.cells import registry
from manilla.disputes import figures as disputes
from manilla.job_kinds import JobKind
from manilla.kit import health
from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Database
from manilla.kit.database.reader import Reader
from manilla.kit.errors import Unavailable
from manilla.kit.jobs.queues import job_queues
from manilla.margin import figures as margin
from manilla.merchants import outgoing
from manilla.notify.outbox import DELIVER
from manilla.platform import settings
from manilla.platform.settings import PlatformSettings
from manilla.proofs import proofs
from manilla.proofs.archive import months
from manilla.providers import accounts as provider_accounts
from manilla.providers import queries as providers
from manilla.providers.health import FIGURES_MINUTES
from manilla.providers.port import Direction
from manilla.routing import deliveries
from manilla.sql import months as partitions

STATES = ("unsent", "sent")


async def measure(db: Database, kinds: Collection[str]) -> None:
    await _measure_jobs(db, {*kinds, DELIVER})
    accounts = await provider_accounts.load(db)
    await _measure_payouts(db, accounts)
    await _measure_cases(db)
    current = await settings.load(db)
    await _measure_disputes(db, current)
    metrics.ways_at_loss.set(await margin.count_losing_ways(db, current))
    await _measure_rails(db, accounts)
    await _measure_deliveries(db, accounts)
    await _measure_books(db)
    await _measure_archive(db)
    await _measure_audit_stream(db)
    metrics.fenced_seconds.set(await registry.fenced_seconds(db))
    await _measure_database(db)
    metrics.measured_at.set_to_current_time()


async def _measure_jobs(db: Database, kinds: Collection[str]) -> None:
    queues = {queue.kind: queue for queue in await job_queues(db)}
    for kind in {*kinds, *queues}:
        queue = queues.get(kind)
        oldest = queue.oldest_due_at if queue else None
        seconds = (datetime.now(UTC) - oldest).total_seconds() if oldest else 0.0
        metrics.jobs_due.labels(kind).set(queue.due if queue else 0)
        metrics.jobs_oldest_seconds.labels(kind).set(max(seconds, 0.0))
        metrics.jobs_parked.labels(kind).set(queue.failed if queue else 0)


class _Open(msgspec.Struct, frozen=True):
    provider: str
    state: str
    number: int


async def _measure_payouts(db: Database, accounts: Collection[str]) -> None:
    """Counts open payouts by counting their jobs, which avoids reading the payout history."""
    rows = await db.rows(
        _Open,
        f"""
        SELECT p.provider, CASE WHEN p.began_at IS NULL THEN 'unsent' ELSE 'sent' END AS state,
               count(*) AS number
          FROM job j
          JOIN payout p ON p.merchant_id = j.merchant_id AND p.trx_id = j.subject
         WHERE j.kind = '{JobKind.TRANSFER}' AND p.status = 'pending' AND p.provider IS NOT NULL
           AND p.environment = 'production'
         GROUP BY 1, 2""",
    )
    numbers = {(row.provider, row.state): row.number for row in rows}
    for provider in accounts:
        for state in STATES:
            number = numbers.get((provider, state), 0)
            metrics.payouts_open.labels(provider, state).set(number)
    metrics.payouts_held.set(await outgoing.hold_start(db) is not None)
    metrics.payouts_without_rail.set(await _count_without_rail(db))


async def _count_without_rail(db: Database) -> int:
    """Counts unsent payouts whose rail is down, except payouts of merchants on hold.

    A worker moves automatic payouts to another rail, so the payouts that remain have no other rail.
    """
    down = await providers.rails_down(db)
    return await db.number(
        f"""
        SELECT count(*)
          FROM job j
          JOIN payout p ON p.merchant_id = j.merchant_id AND p.trx_id = j.subject
         WHERE j.kind = '{JobKind.TRANSFER}' AND p.status = 'pending' AND p.provider = ANY($1)
           AND p.environment = 'production' AND p.began_at IS NULL
           AND outgoing_hold(p.merchant_id, p.environment, false) IS NULL""",
        [provider for provider, direction in down if direction is Direction.PAY_OUT],
    )


async def _measure_audit_stream(db: Database) -> None:
    lags = [target.lag_seconds for target in await targets.list_all(db)]
    metrics.audit_stream_lag_seconds.set(max(lags, default=0))


class _Cases(msgspec.Struct, frozen=True):
    kind: str
    number: int


async def _measure_cases(db: Database) -> None:
    rows = await db.rows(
        _Cases,
        """
        SELECT kind, count(*) AS number FROM operator_case
         WHERE status = 'open' AND NOT lives_elsewhere(merchant_id) GROUP BY kind""",
    )
    numbers = {row.kind: row.number for row in rows}
    for kind in CaseKind:
        metrics.cases_open.labels(kind).set(numbers.get(kind, 0))


async def _measure_disputes(db: Database, current: PlatformSettings) -> None:
    for who, number in (await disputes.count_ending(db)).items():
        metrics.disputes_ending.labels(who).set(number)
    today = datetime.now(LAGOS).date()
    high = await disputes.count_high_rates(db, current, today)
    metrics.dispute_rates_high.set(high)


async def _measure_rails(db: Database, accounts: Collection[str]) -> None:
    rails = {(r.provider, r.direction): r for r in await providers.rail_health(db, FIGURES_MINUTES)}
    for provider in accounts:
        for direction in Direction:
            rail = rails.get((provider, direction))
            share = 1.0 if rail is None or rail.success_share is None else rail.success_share
            metrics.rail_down.labels(provider, direction).set(rail is not None and rail.is_down)
            metrics.rail_answered_share.labels(provider, direction).set(share)


async def _measure_deliveries(db: Database, accounts: Collection[str]) -> None:
    drained, shares = await providers.drained_rails(db), await deliveries.failed_shares(db)
    failing = Counter(provider for provider, _ in await deliveries.read_failing(db))
    for provider in accounts:
        metrics.rail_drained.labels(provider).set(provider in drained)
        metrics.rail_failed_share.labels(provider).set(shares.get(provider, 0.0))
        metrics.rail_failing_banks.labels(provider).set(failing[provider])


async def _measure_books(db: Database) -> None:
    proof = await proofs.last(db)
    metrics.books_broken.set(len(proof.broken))
    if proof.ended_at is not None:
        metrics.books_proved_at.set(proof.ended_at.timestamp())
    if proof.seconds is not None:
        metrics.books_proof_seconds.set(proof.seconds)


async def _measure_archive(db: Database) -> None:
    archived = await months.load(db)
    metrics.archive_problems.set(sum(month.problem is not None for month in archived))
    oldest = min((month.checked_at.timestamp() for month in archived), default=0)
    metrics.archive_checked_at.set(oldest)


async def measure_standby(reads: Reader) -> None:
    """Measures the age of the standby's data, if the instance has a standby for reads."""
    if reads.standby is None:
        return
    try:
        position, state = await reads.position(), await reads.standby.state()
    except Unavailable:
        metrics.standby_up.set(0)
        return
    is_behind, age = not state.has_replayed(position), state.age_seconds
    is_following = state.follows(position) and state.timeline == position.timeline
    metrics.standby_up.set(is_following and not (is_behind and age is None))
    metrics.standby_age_seconds.set(age or 0 if is_behind else 0)


async def _measure_database(db: Database) -> None:
    store = await health.server(db)
    metrics.database_connections.set(store.connections)
    metrics.database_connections_max.set(store.connections_max)
    metrics.database_bytes.set(store.size_bytes)
    for table, days in (await partitions.days_ahead(db)).items():
        metrics.partition_days_ahead.labels(table).set(days)
    replication = await health.replication(db)
    metrics.replication_inactive.set(replication.inactive)
    metrics.replication_behind_bytes.set(replication.behind_bytes)
