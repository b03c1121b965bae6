"""A fair claim reads only the first jobs of each merchant, for every kind of job that is fair."""

import re

from manilla import worker
from manilla.job_kinds import JobKind
from manilla.kit.database.connections import Database
from manilla.kit.jobs import claims
from manilla.services import Services

LONG_QUEUE = 3_000
# A worker runs only a few jobs of these kinds at a time, and a merchant can have very many.
SMALL = (JobKind.BULK_PAYOUTS, JobKind.BULK_NAMES, JobKind.RESEND, JobKind.RECEIPT_MAIL)


async def _plan(db: Database, kind: str) -> str:
    sql = f"EXPLAIN (FORMAT JSON) {claims._fair_claim(kind)}"
    return str(await db.value(sql, 4, -1, claims._lease()))


async def test_a_fair_claim_uses_an_index_by_merchant(services: Services, owner: Database) -> None:
    db = services.db
    # The worker adds the deliveries of notifications to these kinds when it starts.
    fair = [kind for kind, work in worker.job_handlers(services).items() if work.is_fair]
    assert set(fair) == {JobKind.TRANSFER, *SMALL}
    fair += [JobKind.NOTIFY, JobKind.ENDPOINT]
    await db.execute(
        """
        INSERT INTO job (merchant_id, kind, subject, due_at)
        SELECT CASE WHEN n <= $2 THEN 1 ELSE n END, kind, n::text, '2000-01-01'
          FROM unnest($1::text[]) AS kind, generate_series(1, $2 + 10) AS n""",
        *(fair, LONG_QUEUE),
    )
    await owner.execute("VACUUM ANALYZE job")
    for kind in fair:
        plan = await _plan(db, kind)
        used = set(re.findall(r'"Index Name": "(\w+)"', plan))
        assert used, kind
        assert all(name.startswith("job_turns") for name in used), (kind, used)
        scans = set(re.findall(r'"Node Type": "((?:Seq|Bitmap)[^"]*)"', plan))
        assert not scans, (kind, scans)
        claimed, _ = await claims.claim_fairly(db, kind, 4, -1)
        assert len({job.merchant_id for job in claimed}) == 4, kind
    await db.execute("DELETE FROM job WHERE kind = ANY ($1::text[])", fair)
