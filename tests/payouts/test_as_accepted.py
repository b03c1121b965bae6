"""A transfer that was changed in the database after it was accepted is never sent."""

import asyncpg
import msgspec
import pytest

from manilla.audit.decided import SAVED_ACCOUNTS
from manilla.beneficiaries import accounts
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.jobs import claims
from manilla.ledger import invariants, listing, statement
from manilla.ledger.listing import PostingFilter
from manilla.ledger.scope import Tenant
from manilla.ledger.statement import StatementFilter
from manilla.merchants import outgoing
from manilla.notify.endpoints import changes as endpoints
from manilla.notify.endpoints.endpoint import EndpointTerms
from manilla.payments import store as payments
from manilla.payouts import decisions, postings
from manilla.payouts.initiate import SEND
from manilla.proofs import checks, proofs, restored
from manilla.refunds import initiate
from manilla.services import Services
from manilla.transfers import sending
from manilla.transfers.sending import PAYOUTS
from tests.payments.shop import Shop, Started
from tests.payouts.payout_merchant import MANUAL, PayoutMerchant
from tests.support.changed_rows import changed
from tests.support.invariants import ALL
from tests.support.rolled_back import rolled_back

OTHER = '{"bank_code": "058", "account_number": "9876543210"}'


async def _broken(db: Database) -> list[str]:
    return [finding.name for finding in await invariants.check(db, ALL) if finding.count]


async def _paid(shop: Shop) -> Started:
    started = await shop.start()
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")
    return started


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


async def test_a_payout_that_was_changed_can_be_rejected_for_the_debited_amount(
    payer: PayoutMerchant, services: Services, db: Database, owner: Database
) -> None:
    """The wallet gets exactly what was debited, whatever the changed row says."""
    trx_id = await payer.pay_out()
    async with changed(owner, "payout", "amount_minor = amount_minor * 5", trx_id):
        await payer.check_now(trx_id)
        assert await payer.cases() == [("not_as_accepted", trx_id)]
        with pytest.raises(postings.NotAsAccepted):
            await decisions.reject(db, services.rails, trx_id, "changed")
        assert await payer.balance() == 900_000
    async with changed(owner, "payout", DESTINATION, trx_id):
        await decisions.reject(db, services.rails, trx_id, "changed")
        assert await payer.balance() == 1_000_000
    assert await payer.transfers() == []
    assert (await payer.payout(trx_id)).status == "failed"


async def test_a_manual_payout_that_was_changed_is_marked_as_paid_only_with_a_confirmation(
    payer: PayoutMerchant, db: Database, owner: Database
) -> None:
    trx_id = await payer.pay_out(MANUAL)
    async with changed(owner, "payout", DESTINATION, trx_id):
        with pytest.raises(decisions.NotToDecide, match="Do not pay it"):
            await decisions.complete(db, trx_id, "FT-1")
        await decisions.complete(db, trx_id, "FT-1", already_paid=True)


async def test_a_refund_that_was_changed_is_not_sent(
    payer: PayoutMerchant, services: Services, db: Database, owner: Database
) -> None:
    """The refund names the charge of another customer's payment."""
    shop = Shop(services, payer.simulator, payer.merchant)
    [paid, other] = [await _paid(shop) for _ in range(2)]
    refund = await initiate.start(db, paid.trx_id, None, "Returned goods")
    [stolen] = await payments.charges(db, refund.merchant_id, other.trx_id)
    change = f"charge_reference = '{stolen.reference}'"
    async with changed(owner, "refund", change, refund.trx_id):
        await shop.simulator.run_jobs()
        assert (await shop.simulator.read("a/refunds"))["refunds"] == []
        assert "refunds_are_as_accepted" in await _broken(db)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute(f"UPDATE refund SET {change} WHERE trx_id = $1", refund.trx_id)


async def test_statements_and_lists_of_postings_do_not_show_the_digest(
    payer: PayoutMerchant, db: Database
) -> None:
    await payer.pay_out()
    tenant = Tenant(payer.merchant.new.id, payer.merchant.environment)
    lines = await statement.lines(db, tenant, "NGN", StatementFilter())
    assert [line.reason for line in lines.rows] == [None, "for a test"]
    posted = await listing.postings(db, tenant, PostingFilter())
    assert [line.reason for line in posted.rows] == [None, "for a test"]


async def test_a_saved_account_that_was_changed_in_the_database_is_not_used(
    db: Database, owner: Database, payer: PayoutMerchant
) -> None:
    merchant_id, who = payer.merchant.new.id, {"bank_code": "058", "account_number": "0123456789"}
    account_id = await accounts.add(db, merchant_id, "providera-ngn", who)
    assert await accounts.find(db, merchant_id, account_id) is not None
    other = 'beneficiary = beneficiary || \'{"account_number": "9876543210"}\''
    async with changed(owner, "payout_account", other, str(account_id), "id"):
        assert await accounts.find(db, merchant_id, account_id) is None
        found = await proofs.check(db)
        assert [each.name for each in found if each.count] == ["saved_accounts_are_as_saved"]


async def test_an_account_without_an_audit_entry_is_not_used(
    db: Database, payer: PayoutMerchant
) -> None:
    """Somebody has added an account with SQL."""
    merchant_id = payer.merchant.new.id
    insert = """
        INSERT INTO payout_account (merchant_id, method_code, beneficiary, created_at)
        VALUES ($1, 'providera-ngn', $2::jsonb, now() + interval '1 hour')"""
    async with rolled_back(db, "SELECT") as connection:
        account_id = await connection.value(f"{insert} RETURNING id", merchant_id, OTHER)
        assert not await SAVED_ACCOUNTS.check(connection, merchant_id, account_id)


async def test_a_webhook_url_that_was_changed_in_the_database_is_found(
    db: Database, keyring: Keyring, payer: PayoutMerchant
) -> None:
    tenant = Tenant(payer.merchant.new.id, payer.merchant.environment)
    terms = EndpointTerms(url="https://shop.example/events", events=["*"])
    await endpoints.create(db, keyring, tenant, terms)
    change = "UPDATE webhook_endpoint SET url = 'https://thief.example/events'"
    async with rolled_back(db, change) as connection:
        found = [await invariants.find(connection, rule) for rule in checks.DESTINATIONS]
        assert [each.name for each in found if each.count] == ["webhook_endpoints_are_as_set"]
