"""A payout's NIP session id is saved when the provider reports it, and users can search for it."""

import pytest

from manilla.kit.database.connections import Database
from manilla.ledger.scope import Everyone, Tenant
from manilla.lookup.find import find
from manilla.payouts import listing
from manilla.payouts.listing import PayoutFilter
from manilla.providers.port import WebhookEvent, WebhookSubject
from manilla.reconciliation import balances
from manilla.services import Services
from tests.payouts.payout_merchant import PayoutMerchant

SESSION = "000014261116080000123456789012"


async def delivered(payer: PayoutMerchant, rail: str = "b") -> str:
    trx_id = await payer.pay_out(rail)
    await payer.check_until(trx_id, "completed")
    return trx_id


async def forget_references(db: Database, trx_id: str) -> None:
    """Deletes the session id and provider reference, as if the provider had not reported them."""
    await db.execute(
        "UPDATE payout SET session_id = NULL, provider_reference = NULL WHERE trx_id = $1", trx_id
    )


async def session_at_provider(payer: PayoutMerchant, trx_id: str) -> str:
    [session] = [
        each["session_id"] for each in await payer.transfers("b") if each["reference"] == trx_id
    ]
    assert isinstance(session, str)
    return session


async def test_a_delivered_payout_and_its_notification_have_the_session_id(
    payer: PayoutMerchant,
) -> None:
    trx_id = await delivered(payer)
    session = await session_at_provider(payer, trx_id)
    assert (await payer.verify(trx_id)).json["session_id"] == session
    [notified] = await payer.notifications(trx_id)
    assert notified["data"]["session_id"] == session


async def test_a_session_id_that_was_not_reported_is_null(payer: PayoutMerchant) -> None:
    trx_id = await delivered(payer, "a")
    assert (await payer.verify(trx_id)).json["session_id"] is None
    [notified] = await payer.notifications(trx_id)
    assert notified["data"]["session_id"] is None


async def test_a_payout_that_was_not_delivered_has_no_session_id(payer: PayoutMerchant) -> None:
    await payer.simulator.control("b/faults", {"settle_seconds": 3600})
    trx_id = await payer.pay_out("b")
    await payer.simulator.run_jobs()
    assert "session_id" not in (await payer.verify(trx_id)).json
    await payer.settle("b", trx_id, "failed")
    await payer.check_until(trx_id, "failed")
    assert (await payer.payout(trx_id)).session_id is not None
    assert "session_id" not in (await payer.verify(trx_id)).json
    [notified] = await payer.notifications(trx_id)
    assert "session_id" not in notified["data"]


@pytest.mark.parametrize("query", ["reconciliation", "job"])
async def test_a_session_id_reported_after_completion_is_saved(
    payer: PayoutMerchant, services: Services, query: str
) -> None:
    trx_id = await delivered(payer)
    await forget_references(services.db, trx_id)
    before = await payer.payout(trx_id)
    if query == "reconciliation":
        await balances.compare_all(services.db, services.rails)
    else:  # A webhook about a completed payout schedules a status query.
        event = WebhookEvent(WebhookSubject.TRANSFER, trx_id)
        await services.inbox.store("providerb", event, b"{}")
        await payer.check_now(trx_id)
    after = await payer.payout(trx_id)
    session = await session_at_provider(payer, trx_id)
    assert (after.session_id, after.provider_reference) == (session, session)
    assert after.updated_at == before.updated_at
    assert (await payer.verify(trx_id)).json["session_id"] == session
    assert len(await payer.notifications(trx_id)) == 1


async def test_a_session_id_that_only_a_webhook_reports_is_saved_once(
    payer: PayoutMerchant, services: Services
) -> None:
    trx_id = await delivered(payer, "a")

    async def receive(provider: str, session: str) -> str | None:
        event = WebhookEvent(WebhookSubject.TRANSFER, trx_id, session_id=session)
        await services.inbox.store(provider, event, session.encode())
        return (await payer.payout(trx_id)).session_id

    assert await receive("providerc", "of-another-provider") is None
    assert await receive("providera", SESSION) == SESSION
    assert await receive("providera", "another") == SESSION


async def test_reconciliation_queries_the_reference_that_was_sent(
    payer: PayoutMerchant, services: Services
) -> None:
    trx_id = await delivered(payer, "a")
    await services.db.execute(
        "UPDATE payout SET sent_reference = 'sent-otherwise' WHERE trx_id = $1", trx_id
    )
    found = await balances.compare_all(services.db, services.rails)
    [report] = [each for each in found if each.provider == "providera"]
    assert trx_id in report.transfers_differ  # The provider has no transfer with this reference.


async def test_a_payout_is_found_by_its_session_id_and_the_providers_reference(
    payer: PayoutMerchant, services: Services
) -> None:
    trx_id, other = await delivered(payer), await delivered(payer, "a")
    session = await session_at_provider(payer, trx_id)
    reference = (await payer.payout(other)).provider_reference
    assert reference is not None
    for wanted, owner in ((session, trx_id), (reference, other), (f" {session} ", trx_id)):
        found = await find(services.db, wanted)
        assert found is not None
        assert (found.kind, found.id, found.trx_id) == ("payout", wanted.strip(), owner)
        merchant = payer.merchant
        for scope in (Everyone(), Tenant(merchant.new.id, merchant.environment)):
            page = await listing.payouts(services.db, scope, PayoutFilter(search=wanted))
            assert [row.trx_id for row in page.rows] == [owner]
    assert await find(services.db, session[:-1]) is None
    elsewhere = Tenant(payer.merchant.new.id + 1, payer.merchant.environment)
    page = await listing.payouts(services.db, elsewhere, PayoutFilter(search=session))
    assert page.rows == []


async def test_an_open_payout_is_found_by_the_providers_reference_after_a_status_query(
    payer: PayoutMerchant, services: Services
) -> None:
    await payer.simulator.control("a/faults", {"settle_seconds": 3600})
    trx_id = await payer.pay_out("a")
    await payer.simulator.run_jobs()
    accepted = await payer.payout(trx_id)
    assert accepted.accepted_at is not None
    assert accepted.provider_reference is not None
    await payer.check_now(trx_id)
    assert await payer.payout(trx_id) == accepted
    found = await find(services.db, accepted.provider_reference)
    assert found is not None
    assert (found.kind, found.trx_id) == ("payout", trx_id)


async def test_saving_an_acceptance_changes_no_indexed_column(services: Services) -> None:
    indexed = await services.db.value(
        """
        SELECT string_agg(pg_get_indexdef(indexrelid), ' ') FROM pg_index
         WHERE indrelid = 'payout'::regclass"""
    )
    for column in ("accepted_at", "accepted_reference", "provider_fee_minor"):
        assert column not in indexed


async def test_the_lookup_by_reference_uses_the_indexes(db: Database) -> None:
    async with db.transaction() as connection:
        await connection.execute("SET LOCAL enable_seqscan = off")
        plan = await connection.records(
            "EXPLAIN SELECT trx_id FROM payout WHERE (session_id = 'x' OR provider_reference = 'x')"
        )
    text = "\n".join(record[0] for record in plan)
    assert "payout_session_id" in text
    assert "payout_provider_reference" in text
