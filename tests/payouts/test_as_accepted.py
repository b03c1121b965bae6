"""A transfer that was changed in the database after it was accepted is never sent."""

import contextlib
import re
from collections.abc import AsyncIterator

import asyncpg
import msgspec
import pytest

from manilla.kit.db import Database
from manilla.kit.jobs import claims
from manilla.ledger import invariants
from manilla.merchants import outgoing
from manilla.payouts.initiate import SEND
from manilla.proofs import restored
from manilla.services import Services
from manilla.transfers import sending
from manilla.transfers.sending import PAYOUTS
from tests.invariants import ALL
from tests.payouts.payout_merchant import PayoutMerchant

OTHER = '{"bank_code": "058", "account_number": "9876543210"}'


@contextlib.asynccontextmanager
async def changed(owner: Database, table: str, change: str, trx_id: str) -> AsyncIterator[None]:
    """The database's owner disables the triggers, and changes a row until the end of the block."""
    trigger = "append_only" if table == "posting" else "as_accepted"
    kind = " AND kind = 'payout'" if table == "posting" else ""
    of_row = f"trx_id = '{trx_id}'{kind}"
    columns = re.findall(r"(\w+) = ", change)
    before = await owner.record(f"SELECT {', '.join(columns)} FROM {table} WHERE {of_row}")
    await owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}")
    try:
        await owner.execute(f"UPDATE {table} SET {change} WHERE {of_row}")
        yield
        for column in columns:
            await owner.execute(f"UPDATE {table} SET {column} = $1 WHERE {of_row}", before[column])
    finally:
        await owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER {trigger}")


async def _broken(db: Database) -> list[str]:
    return [finding.name for finding in await invariants.check(db, ALL) if finding.count]


DESTINATION = f"beneficiary = '{OTHER}'"


@pytest.mark.parametrize(
    "change",
    [
        DESTINATION,
        "amount_minor = amount_minor + 1",
        "provider = 'providerb'",
        "rail_bank_code = '058'",
    ],
)
async def test_a_payout_that_was_changed_is_sent_only_after_it_was_restored(
    payer: PayoutMerchant, services: Services, db: Database, owner: Database, change: str
) -> None:
    await outgoing.hold_all(db)
    trx_id = await payer.pay_out()
    async with changed(owner, "payout", change, trx_id):
        await restored.release(db, services.rails)
        await payer.check_now(trx_id)
        assert [await payer.transfers(rail) for rail in "ab"] == [[], []]
        assert await payer.cases() == [("not_as_accepted", trx_id)]
        payout = await payer.payout(trx_id)
        assert (payout.status, payout.began_at) == ("pending", None)
        assert "payouts_are_as_accepted" in await _broken(db)
    await payer.check_until(trx_id, "completed")
    [transfer] = await payer.transfers()
    assert transfer["reference"] == trx_id


async def test_what_is_sent_is_what_was_compared(payer: PayoutMerchant, db: Database) -> None:
    """The worker has loaded another destination than the one that is stored when it sends."""
    await payer.pay_out()
    [job] = await claims.claim(db, {SEND: 1})
    mark = await payer.mark_of(job)
    other = msgspec.structs.replace(mark, destination=f"sha256:{'0' * 64}")
    assert await sending.mark(db, PAYOUTS, [other]) == [False]
    assert await sending.mark(db, PAYOUTS, [mark]) == [True]


async def test_the_application_cannot_change_the_destination(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await payer.pay_out()
    with pytest.raises(asyncpg.RaiseError, match="never changes"):
        await db.execute(
            "UPDATE payout SET beneficiary = $2::jsonb WHERE trx_id = $1", trx_id, OTHER
        )
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute("UPDATE payout SET amount_minor = 1 WHERE trx_id = $1", trx_id)


@pytest.mark.parametrize("is_old", [True, False])
async def test_only_payouts_from_before_the_upgrade_may_have_no_digest(
    payer: PayoutMerchant, db: Database, owner: Database, services: Services, is_old: bool
) -> None:
    """The previous version has accepted payouts without a digest, which are sent."""
    await outgoing.hold_all(db)
    trx_id = await payer.pay_out()
    await owner.execute("ALTER TABLE destination_epoch DISABLE TRIGGER append_only")
    before = await owner.value("SELECT since FROM destination_epoch")
    moved = "+ interval '1 hour'" if is_old else "- interval '1 hour'"
    try:
        async with changed(owner, "posting", "reason = NULL", trx_id):
            await owner.execute(f"UPDATE destination_epoch SET since = now() {moved}")
            await restored.release(db, services.rails)
            await payer.check_now(trx_id)
            assert len(await payer.transfers()) == is_old
            assert ("payouts_are_as_accepted" in await _broken(db)) != is_old
    finally:
        await owner.execute("UPDATE destination_epoch SET since = $1", before)
        await owner.execute("ALTER TABLE destination_epoch ENABLE TRIGGER append_only")
