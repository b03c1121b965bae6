"""Collects the contents of an auditor's pack, in one snapshot of the database, and only reads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from manilla import __version__
from manilla.audit import audit
from manilla.audit.audit import SavedHead
from manilla.customers.invariants import CUSTOMERS
from manilla.disputes.invariants import DISPUTES
from manilla.invoices.invariants import INVOICES
from manilla.kit.clock import LAGOS, iso, start_of_day
from manilla.kit.database import reader
from manilla.kit.database.connections import Connection, session
from manilla.ledger import invariants
from manilla.ledger.invariants import Invariant
from manilla.payments.invariants import PAYMENTS
from manilla.payouts.invariants import PAYOUTS
from manilla.people.roles import permissions_of
from manilla.prices.invariants import PRICES
from manilla.proofs import access, catalog, checks, new_rows, recomputed, verify
from manilla.proofs.checks import Listing
from manilla.proofs.new_rows import ALL_ROWS, NewTransactions, RowLimit
from manilla.proofs.tables import CheckedRule, ListedRows, PackSection, PackTable, check_of
from manilla.proofs.verify import Seal, Verification
from manilla.reconciliation import reports, unmatched
from manilla.reconciliation.days import DAY
from manilla.reconciliation.matching import OPEN_SIDES
from manilla.reconciliation.reports import DayReport
from manilla.reconciliation.unmatched import DUE_AFTER, Unmatched
from manilla.saved_ways.invariants import SAVED_WAYS
from manilla.splits.invariants import SPLITS
from manilla.sql.migrate import newest_revision

FINDINGS_MAX = 10_000  # maximum number of rows in one check's file
STATEMENT_SECONDS = 3600
PROGRAM = Path(verify.__file__)

# One session for the recomputation, and two for the SQL checks.
SESSIONS = 3
BY_INDEX = "SET LOCAL enable_seqscan = off"  # finds new rows by index
DAYS_MAX = 100_000  # more than the days of all providers in a lifetime

LISTS = (
    (PackSection.COMPLETENESS, checks.ARRIVALS),
    (PackSection.COMPLETENESS, checks.MERCHANTS_ELSEWHERE),
    (PackSection.TRANSFERS, checks.UNKNOWN_OUTCOMES),
    (PackSection.PEOPLE, checks.PEOPLE),
    (PackSection.PEOPLE, checks.API_KEYS),
    (PackSection.PEOPLE, checks.DATABASE_ROLES),
    (PackSection.PEOPLE, checks.APPROVALS),
    (PackSection.PEOPLE, checks.APPROVED_PAYOUTS),
)


class PackOptions(msgspec.Struct, frozen=True):
    day: date | None = None  # the last day of the pack, or None for the current time
    expected: tuple[str, ...] = ()  # anchors of earlier packs, which the chain must contain
    audit_head: SavedHead | None = None
    seal: Seal | None = None  # the seal of an earlier pack, whose postings are not read again
    archive: Path | None = None  # the folder with archived months
    term_days: int = 3
    # In development mode, the providers are simulated and their balances are not read.
    is_development: bool = False

    @property
    def until(self) -> datetime | None:
        return None if self.day is None else start_of_day(self.day + timedelta(days=1))


# A step runs in a session and returns its results.
Step = Callable[[Connection], Awaitable[list[PackTable]]]


class Pack(msgspec.Struct, frozen=True):
    facts: dict[str, Any]
    checks: list[CheckedRule]
    lists: list[ListedRows]
    seal: str

    @property
    def tables(self) -> list[PackTable]:
        return [*self.checks, *self.lists]

    @property
    def is_sound(self) -> bool:
        return all(check.count == 0 for check in self.checks)


async def collect(url: str, options: PackOptions, *, standby_url: str | None = None) -> Pack:
    """Runs all checks. The recomputation and the SQL checks run at the same time.

    With `standby_url`, all checks read from a standby that has replayed all confirmed commits.
    """
    async with _snapshot(url, standby_url) as sessions:
        program, *others = sessions
        connections = [Connection(each) for each in others]
        connection = connections[0]
        now = await connection.value("SELECT now()")
        moment = min(now, options.until or now)
        new = None
        if options.seal is not None:
            await connection.execute(BY_INDEX)
            new = await new_rows.find(connection, options.seal)
        for each in connections:
            await each.execute("SET LOCAL enable_seqscan = DEFAULT" if new is None else BY_INDEX)
        audited, audit_head = await _verify_audit_log(connection, options)
        verifying = asyncio.create_task(
            verify.verify(
                program,
                expected=options.expected,
                seal=options.seal,
                until=options.until,
                archive=options.archive,
            )
        )
        steps = _steps(options, moment, new, verifying)
        tables = await _run_all(steps, connections, verifying)
        verified = verifying.result()
        facts = await _facts(connection, options, verified, now)
    tables = [*recomputed.tables(verified), audited, *tables]
    return Pack(
        {**facts, "is_full": new is None and options.seal is None, "audit_head": audit_head},
        [table for table in tables if isinstance(table, CheckedRule)],
        [table for table in tables if isinstance(table, ListedRows)],
        verified.seal(checked_at=now),
    )


@asynccontextmanager
async def _snapshot(url: str, standby_url: str | None) -> AsyncIterator[list[Any]]:
    """Opens sessions that see the same snapshot of the database and can only read."""
    limit, target = STATEMENT_SECONDS, None if standby_url is None else "standby"
    async with AsyncExitStack() as stack:
        sessions: list[Any] = []
        snapshot = None
        for _ in range(SESSIONS):
            opened = session(standby_url or url, statement_seconds=limit, target=target)
            raw = await stack.enter_async_context(opened)
            if standby_url is not None and snapshot is None:
                async with session(url, statement_seconds=limit) as primary:
                    needed = await reader.position_of(Connection(primary))
                await reader.wait_until_replayed(Connection(raw), needed)
            transaction = raw.transaction(isolation="repeatable_read", readonly=True)
            await stack.enter_async_context(transaction)
            if snapshot is None:
                snapshot = await raw.fetchval("SELECT pg_export_snapshot()")
            else:
                await raw.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            # The sessions run in parallel, so parallel workers would only add overhead.
            await raw.execute(
                "SET LOCAL jit = off; SET LOCAL work_mem = '128MB';"
                "SET LOCAL max_parallel_workers_per_gather = 0;"
                "SET LOCAL timezone = 'UTC'; SET LOCAL search_path = public"
            )
            sessions.append(raw)
        yield sessions


async def _run_all(
    steps: Iterable[Step], connections: Sequence[Connection], verifying: asyncio.Task[Verification]
) -> list[PackTable]:
    """Runs each step in the next free session. Returns the tables in the order of the steps."""
    waiting, tables = iter(steps), list[list[PackTable]]()

    async def run(connection: Connection) -> None:
        for step in waiting:
            number = len(tables)
            tables.append([])
            tables[number] = await step(connection)

    tasks = [verifying, *(asyncio.create_task(run(each)) for each in connections)]
    try:
        await asyncio.gather(*tasks)
    finally:
        # If a check fails, end the other sessions' queries before their transactions are closed.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [table for each in tables for table in each]


def _steps(
    options: PackOptions,
    moment: datetime,
    new: NewTransactions | None,
    verifying: asyncio.Task[Verification],
) -> Iterator[Step]:
    """Yields all SQL checks. Those that use recomputed balances come last and wait for them."""
    limit: Callable[[str], RowLimit] = (lambda _: ALL_ROWS) if new is None else new.limit
    days = ALL_ROWS if new is None else new.days
    yield partial(_list, PackSection.RECONCILIATION, checks.DAYS_WITHOUT_STATEMENT, days)
    rules = [(section, rule) for section, of in _rules(moment, options).items() for rule in of]
    for section, rule in rules:
        if rule.name not in new_rows.SUMS:
            yield partial(_check, section, rule, limit(rule.name))
    for section, listing in LISTS:
        yield partial(_list, section, listing, ALL_ROWS)
    yield partial(_compare_days, options, moment)
    yield _compare_catalog
    for section, rule in rules:
        if rule.name in new_rows.SUMS:
            yield partial(_check_sums, section, rule, verifying)


def _rules(moment: datetime, options: PackOptions) -> dict[PackSection, Sequence[Invariant]]:
    return {
        PackSection.COMPLETENESS: (
            *(*PAYMENTS, *PAYOUTS, *CUSTOMERS, *DISPUTES, *PRICES, *INVOICES),
            *(*SAVED_WAYS, *SPLITS),
            *(*checks.COMPLETENESS, *checks.EXCUSES),
        ),
        PackSection.RECONCILIATION: (checks.CLEARING_DIFFERENCES,),
        PackSection.TRANSFERS: checks.TRANSFERS,
        PackSection.PEOPLE: (*checks.DECISIONS, *checks.DESTINATIONS),
        PackSection.SCHEMA: access.ACCESS,
        PackSection.COVER: (
            *checks.terms(moment, options.term_days),
            *(
                ()
                if options.is_development
                else checks.cover(moment, options.term_days, is_now=options.day is None)
            ),
        ),
    }


async def _check(
    section: PackSection, rule: Invariant, limit: RowLimit, connection: Connection
) -> list[PackTable]:
    found = await invariants.find(connection, rule, FINDINGS_MAX, limit.sql, limit.values)
    table = section, rule.name, rule.promise, found.examples, rule.violations
    return [CheckedRule(*table, count=found.count)]


async def _check_sums(
    section: PackSection,
    rule: Invariant,
    verifying: asyncio.Task[Verification],
    connection: Connection,
) -> list[PackTable]:
    verified = await asyncio.shield(verifying)
    elsewhere = set(await invariants.merchants_elsewhere(connection))
    balances = {key: minor for key, minor in verified.balances.items() if key[0] not in elsewhere}
    limit = new_rows.of_balances(rule.name, balances)
    return await _check(section, rule, limit, connection)


async def _list(
    section: PackSection, listing: Listing, limit: RowLimit, connection: Connection
) -> list[PackTable]:
    found = await connection.records(f"{limit.sql} {listing.query}", *limit.values)
    rows = [_with_permissions(dict(row)) for row in found]
    return [ListedRows(section, listing.name, listing.title, rows, listing.query)]


def _with_permissions(row: dict[str, Any]) -> dict[str, Any]:
    if "role" not in row or "realm" not in row:
        return row
    return {**row, "permissions": sorted(permissions_of(row["role"]))}


async def _compare_days(
    options: PackOptions, moment: datetime, connection: Connection
) -> list[PackTable]:
    """Compares each day's ledger, statement and provider balance, and lists what is unexplained."""
    last = moment.astimezone(LAGOS).date() if options.day is None else options.day
    imported = await reports.reports(connection, limit=DAYS_MAX)
    found = [report for report in imported if report.day.day <= last]
    open_items = [
        item
        for provider in sorted({report.day.provider for report in found})
        for item in await unmatched.find_unmatched(
            connection, provider, before=moment, neighbors=1, limit=FINDINGS_MAX
        )
    ]
    return [
        check_of(
            PackSection.RECONCILIATION,
            "unmatched_items_are_younger_than_a_day",
            "Each movement in the ledger and each line of a provider's statement is explained "
            "by the other side within a day.",
            [
                _unmatched(item, moment)
                for item in open_items
                if item.booked_at <= moment - DUE_AFTER
            ],
            OPEN_SIDES,
        ),
        check_of(
            PackSection.RECONCILIATION,
            "signed_days_are_unchanged",
            "The figures of a day have not changed since an accountant signed them off.",
            [_day(report) for report in found if report.changes],
            DAY,
        ),
        ListedRows(
            PackSection.RECONCILIATION,
            "days",
            "Ledger, statement and provider balance of each day",
            [_day(report) for report in found],
            DAY,
        ),
        ListedRows(
            PackSection.RECONCILIATION,
            "unmatched_items",
            "Every unexplained item, with its age",
            [_unmatched(item, moment) for item in open_items],
            OPEN_SIDES,
        ),
    ]


def _day(report: DayReport) -> dict[str, Any]:
    return {name: value(report) for name, value in reports.COLUMNS.items()}


def _unmatched(item: Unmatched, moment: datetime) -> dict[str, Any]:
    row = {name: value(item) for name, value in reports.UNMATCHED_COLUMNS.items()}
    return {**row, "age_days": (moment - item.booked_at).days}


async def _verify_audit_log(
    connection: Connection, options: PackOptions
) -> tuple[CheckedRule, str]:
    verdict = await audit.verify_in(connection, options.audit_head)
    broken = [] if verdict.is_whole else [{"id": verdict.broken_id, "reason": verdict.reason}]
    result = check_of(
        PackSection.PEOPLE,
        "audit_log_is_whole",
        "No entry of the audit log was changed, removed or inserted.",
        broken,
        "SELECT * FROM audit ORDER BY id",
    )
    return result, f"{verdict.last_id}:{verdict.last_hash}"


async def _compare_catalog(connection: Connection) -> list[PackTable]:
    found = await catalog.compare(connection)
    rows = [msgspec.structs.asdict(each) for each in found if each.problem]
    sql = f"{catalog.SETTINGS};\n{catalog.OBJECTS}"
    result = check_of(
        PackSection.SCHEMA,
        "schema_is_of_this_version",
        "The database has exactly the tables, columns, constraints, indexes, triggers, rules, "
        "functions and types of this version, and none of them is disabled.",
        rows,
        sql,
    )
    title = "Objects in the database with their definitions. A function has the SHA-256 of its SQL"
    objects = [
        {"type": each.type, "name": each.name, "definition": each.definition} for each in found
    ]
    return [result, ListedRows(PackSection.SCHEMA, "schema", title, objects, sql)]


async def _facts(
    connection: Connection, options: PackOptions, verified: Verification, now: datetime
) -> dict[str, Any]:
    row = await connection.record(
        """
        SELECT current_database() AS database, current_user::text AS database_user,
               version() AS server, pg_current_snapshot()::text AS snapshot,
               (SELECT version_num FROM alembic_version) AS schema_version,
               (SELECT digest FROM function_set) AS function_set,
               pg_is_in_recovery() AS server_is_standby,
               has_table_privilege('entry', 'INSERT, UPDATE, DELETE') AS user_can_write"""
    )
    return {
        "version": __version__,
        "newest_schema_version": newest_revision(),
        **dict(row),
        "taken_at": iso(now.astimezone(UTC)),
        "until": None if options.until is None else iso(options.until),
        "postings_verified": verified.postings,
        "entries_verified": verified.entries,
        "postings_newer_than_the_chain": verified.unlinked_postings,
        "links": len(verified.links),
        "chain_head": verified.head,
        "expected": list(options.expected),
        "expected_audit_head": None if options.audit_head is None else str(options.audit_head),
        "provider_balances_are_checked": not options.is_development,
    }
