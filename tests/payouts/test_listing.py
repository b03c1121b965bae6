"""Listing and filtering payouts and saved accounts, and payout statistics."""

from datetime import UTC, datetime, timedelta
from typing import Any

from manilla.beneficiaries import accounts
from manilla.kit.clock import last_days
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.listing import in_pages
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone, Scope, Tenant
from manilla.lookup.story import payout_story
from manilla.payouts import decisions, figures, listing
from manilla.payouts.listing import AccountFilter, PayoutFilter
from manilla.payouts.payout import PayoutStatus
from manilla.services import Services
from manilla.transfers.refusals import PayoutErrorCode
from tests.payouts.payout_merchant import MANUAL, PayoutMerchant


async def test_payouts_are_found_by_every_filter_and_reference(
    db: Database, services: Services, payer: PayoutMerchant, sandbox_payer: PayoutMerchant
) -> None:
    merchant = payer.merchant
    tenant = Tenant(merchant.new.id, merchant.environment)

    async def found(scope: Scope = tenant, **wanted: Any) -> list[str]:
        page = await listing.payouts(db, scope, PayoutFilter(**wanted))
        return [row.trx_id for row in page.rows]

    began = datetime.now(UTC) - timedelta(seconds=5)
    beneficiary = {"Bank Name": "GTBank", "Account Number": "7777777777"}
    manual_id = await payer.pay_out(
        MANUAL, payout_amount=500, beneficiary=beneficiary, ref_trx="50%_of it"
    )
    waiting = await payer.pay_out(MANUAL, payout_amount=900)
    await decisions.reject(db, payer.services.rails, manual_id, "not today")
    others = await sandbox_payer.pay_out(MANUAL)
    sent = await payer.pay_out("a")
    await db.execute(
        """
        UPDATE payout SET provider_reference = 'PR_1', bank_reference = 'BR-1'
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(merchant.new.id, sent),
    )
    everything = [sent, waiting, manual_id]

    assert await found() == everything
    assert await found(Tenant(merchant.new.id, Environment.SANDBOX)) == []
    assert await found(Everyone(merchant.new.id)) == everything
    assert {sent, others} <= set(await found(Everyone()))
    assert await found(search=others) == []
    assert await found(Everyone(), search=others) == [others]
    assert await found(status=PayoutStatus.CANCELED) == [manual_id]
    assert await found(error_code=PayoutErrorCode.PAYOUT_FAILED) == [manual_id]
    assert await found(manual=True) == [waiting, manual_id]
    assert await found(method="providera_ngn_transfer") == [sent]
    assert await found(currency="USD") == []
    assert await found(min_minor=90_000, max_minor=90_000) == [waiting]
    assert await found(since=began) == everything
    assert await found(until=began) == []
    for search in (sent, "PR_1", "BR-1", "0123456789"):
        assert sent in await found(search=search)
    assert await found(search="7777777777") == [manual_id]
    assert await found(search="777777777") == []  # A search finds only complete account numbers.
    assert await found(search="PR%1") == await found(search="PRX1") == []
    assert await found(search="50%_of it") == await found(search="%_OF") == [manual_id]

    first = await listing.payouts(db, tenant, PayoutFilter(), limit=2)
    await payer.pay_out(MANUAL, payout_amount=500)
    second = await listing.payouts(db, tenant, PayoutFilter(), limit=2, after=first.next)
    assert [row.trx_id for row in first.rows + second.rows] == everything
    assert second.next is None
    pages = in_pages(listing.payouts, db, tenant, PayoutFilter(until=trx_ids.moment_of(sent)))
    assert [row.trx_id async for rows in pages for row in rows] == everything[1:]

    [today] = await figures.daily(db, tenant, "NGN", last_days(1))
    assert (today.count, today.failed, today.volume_minor) == (4, 1, 0)
    assert today.success_rate == 0.0
    assert await figures.count_waiting(db, tenant, timedelta(hours=1)) == 0
    assert await figures.count_waiting(db, tenant, timedelta(minutes=-1)) == 3

    await services.requests.flush()
    story = await payout_story(db, merchant.new.id, manual_id, environment=tenant.environment)
    assert story is not None
    assert [request.trx_id for request in story.requests] == [manual_id]
    assert [step.to_status for step in story.steps][-1] == "canceled"
    assert len(story.postings) == 2
    assert sum(e.amount_minor for p in story.postings for e in p.entries) == 0
    assert [notified.notification.status for notified in story.notifications] == ["canceled"]
    assert await payout_story(db, sandbox_payer.merchant.new.id, manual_id) is None


async def test_a_merchant_sees_only_its_own_saved_accounts(
    db: Database, payer: PayoutMerchant, sandbox_payer: PayoutMerchant
) -> None:
    mine, theirs = payer.merchant.new.id, sandbox_payer.merchant.new.id
    rail = "providera_ngn_transfer"
    bank = {"bank_code": "058", "account_number": "0123456789"}
    first = await accounts.add(db, mine, rail, bank, account_name="ADA OBI", label="rent_1")
    second = await accounts.add(db, mine, "platform", {"Account Number": "5"}, label="100%")
    await accounts.add(db, theirs, rail, bank)
    await accounts.remove(db, mine, second)

    async def found(**wanted: Any) -> list[int]:
        page = await listing.saved_accounts(db, mine, AccountFilter(**wanted))
        return [row.id for row in page.rows]

    assert await found() == [first]
    assert await found(active=None) == [second, first]
    assert await found(active=None, method=rail) == [first]
    assert await found(search="0123456789") == await found(search="ada") == [first]
    assert await found(search="rent_") == [first]
    assert await found(search="r%t") == await found(search="rent%") == []
    assert await found(active=False, search="5") == [second]
    page = await listing.saved_accounts(db, mine, AccountFilter(active=None), limit=1)
    rest = await listing.saved_accounts(
        db, mine, AccountFilter(active=None), limit=1, after=page.next
    )
    assert [row.id for row in page.rows + rest.rows] == [second, first]
    whole = in_pages(listing.saved_accounts, db, mine, AccountFilter(active=None))
    assert [row.id async for rows in whole for row in rows] == [second, first]
