"""Lists of postings, balances and failed jobs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import failed
from manilla.kit.jobs.failed import FailedJobFilter
from manilla.kit.listing import BadCursor, in_pages
from manilla.kit.money import Money
from manilla.ledger import listing, statement
from manilla.ledger.listing import PostingFilter
from manilla.ledger.scope import Everyone, Tenant
from manilla.ledger.statement import StatementFilter
from manilla.merchants import merchants, wallets


async def fund(db: Database, tenant: Tenant, naira: int) -> str:
    money = Money.of(naira, "NGN")
    funded = await wallets.fund(db, tenant.merchant_id, tenant.environment, money, "for a test")
    return funded.trx_id


async def test_a_statement_lists_balances_backwards(
    db: Database, keyring: Keyring, merchant_id: int
) -> None:
    tenant = Tenant(merchant_id, Environment.PRODUCTION)
    other = await merchants.create(db, keyring, name="Other", email="o@example.com")
    trx_ids = []
    for naira in (1, 2, 3, 4, 5):
        trx_ids.append(await fund(db, tenant, naira))
        await fund(db, Tenant(other.id, Environment.PRODUCTION), 1)
        await fund(db, Tenant(merchant_id, Environment.SANDBOX), 1)
    page = await statement.lines(db, tenant, "NGN", StatementFilter(), limit=2)
    late = await fund(db, tenant, 6)
    rest = await statement.lines(db, tenant, "NGN", StatementFilter(), after=page.next)
    lines = page.rows + rest.rows
    assert [line.trx_id for line in lines] == trx_ids[::-1]
    assert [line.amount.minor for line in lines] == [500, 400, 300, 200, 100]
    assert [line.balance.minor for line in lines] == [1500, 1000, 600, 300, 100]
    assert {(line.kind, line.reason) for line in lines} == {("funding", "for a test")}
    assert rest.next is None
    whole = in_pages(statement.lines, db, tenant, "NGN", StatementFilter())
    assert [line.trx_id async for rows in whole for line in rows] == [late, *trx_ids[::-1]]

    async def found(**wanted: Any) -> list[str]:
        of = await statement.lines(db, tenant, "NGN", StatementFilter(**wanted))
        return [line.trx_id for line in of.rows]

    [third] = (await statement.lines(db, tenant, "NGN", StatementFilter(search=trx_ids[2]))).rows
    assert third.trx_id == trx_ids[2]
    assert await found(search="%") == await found(kind="payout") == []
    assert await found(kind="funding", search=late) == [late]
    assert await found(since=third.posted_at) == [late, *trx_ids[:1:-1]]
    assert await found(until=third.posted_at) == trx_ids[1::-1]
    assert await found(since=datetime.now(UTC) + timedelta(days=1)) == []
    for bad in ("x", "WyJ4Il0"):
        with pytest.raises(BadCursor):
            await statement.lines(db, tenant, "NGN", StatementFilter(), after=bad)


async def test_postings_are_listed_with_their_entries(db: Database, merchant_id: int) -> None:
    sandbox, production = (Tenant(merchant_id, each) for each in Environment)
    trx_ids = [await fund(db, production, 5) for _ in range(4)]
    in_sandbox = await fund(db, sandbox, 5)

    async def found(scope: Tenant | Everyone, **wanted: Any) -> list[str]:
        rows = (await listing.postings(db, scope, PostingFilter(**wanted))).rows
        return [row.trx_id for row in rows]

    assert await found(production) == trx_ids[::-1]
    assert await found(Everyone(environment=Environment.PRODUCTION), search=in_sandbox) == []
    for scope in (Everyone(), Everyone(merchant_id)):
        assert (await found(scope))[:5] == [in_sandbox, *trx_ids[::-1]]
        assert await found(scope, search=trx_ids[1]) == [trx_ids[1]]
        assert await found(scope, search="%") == await found(scope, kind="fund%") == []
        assert (await found(scope, kind="funding", currency="NGN"))[0] == in_sandbox
        page = await listing.postings(db, scope, PostingFilter(), limit=2)
        rest = await listing.postings(db, scope, PostingFilter(), limit=2, after=page.next)
        assert [row.trx_id for row in page.rows + rest.rows] == [in_sandbox, *trx_ids[:0:-1]]
    [row] = await listing.postings_of(db, merchant_id, [trx_ids[0]])
    assert {(entry.account, entry.amount_minor) for entry in row.entries} == {
        ("wallet", 500),
        ("adjustment", -500),
    }
    assert await found(production, since=row.posted_at) == trx_ids[::-1]
    assert await found(production, until=row.posted_at) == []


async def test_failed_jobs_are_listed(db: Database, merchant_id: int) -> None:
    async def park(kind: str, subject: str, hours: int) -> None:
        await db.execute(
            """
            INSERT INTO job (merchant_id, kind, subject, due_at, parked_at, last_error)
            VALUES ($1, $2, $3, 'infinity', now() - make_interval(hours => $4), 'broken')""",
            *(merchant_id, kind, subject, hours),
        )

    async def found(**wanted: Any) -> list[str]:
        page = await failed.failed_jobs(db, FailedJobFilter(merchant_id=merchant_id, **wanted))
        return [job.subject for job in page.rows]

    await park("none", "old", 2)
    await park("none", "new", 1)
    await park("other", "newest", 0)
    assert await found() == ["newest", "new", "old"]
    assert await found(kind="none") == ["new", "old"]
    assert await found(search="old") == ["old"]
    assert await found(search="%") == []
    wanted = FailedJobFilter(merchant_id=merchant_id)
    page = await failed.failed_jobs(db, wanted, limit=2)
    rest = await failed.failed_jobs(db, wanted, limit=2, after=page.next)
    assert [job.subject for job in rest.rows] == ["old"]
    assert await failed.count_failed_jobs(db) >= 3
    await db.execute("DELETE FROM job WHERE merchant_id = $1", merchant_id)
