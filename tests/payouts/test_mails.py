"""Users get emails about production payouts and notifications."""

import pytest

from manilla import worker
from manilla.bulk import batches
from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.job_kinds import JobKind
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job, claims
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.payouts import states
from manilla.people import members
from manilla.people.roles import Role
from manilla.settings import Settings
from manilla.transfers.events import Source, TransferEvent, TransferResult
from tests.bulk.payout_file import confirmed
from tests.mail.outbox_reader import letters_to
from tests.notify.deliveries import Deliveries, delivery_worker
from tests.notify.receiver import answer, receiving
from tests.payouts.payout_merchant import MANUAL, PayoutMerchant, setting
from tests.people.accounts import PASSWORD, Accounts, new_email


async def _member(payer: PayoutMerchant, role: Role) -> str:
    email = new_email()
    await members.add(
        payer.services.db,
        payer.merchant.new.id,
        email=email,
        name="Ada Obi",
        role=role,
        password=PASSWORD,
    )
    return email


async def _subjects(payer: PayoutMerchant, email: str) -> list[str]:
    services = payer.services
    return [each.subject for each in await letters_to(services.db, services.letters, email)]


@pytest.mark.parametrize(
    ("event", "words"),
    [(TransferEvent.FAILED, "failed"), (TransferEvent.REVERSED, "was returned")],
)
async def test_finance_users_get_an_email_about_a_failed_or_returned_payout(
    payer: PayoutMerchant, event: TransferEvent, words: str
) -> None:
    finance, developer = await _member(payer, Role.FINANCE), await _member(payer, Role.DEVELOPER)
    trx_id = await payer.pay_out("a")
    settled = TransferResult(event, Source.PROVIDER, guidance="The account is closed.")
    for _ in range(2):
        await states.apply_result(payer.services.db, payer.merchant.new.id, trx_id, settled)
    [letter] = await letters_to(payer.services.db, payer.services.letters, finance)
    assert letter.subject == f"Payout of ₦1,000.00 {words}"
    assert (trx_id in letter.text, "The account is closed." in letter.text) == (True, True)
    assert letter.link.endswith(f"/dashboard/production/payouts/{trx_id}")
    assert await _subjects(payer, developer) == []


async def test_a_sandbox_payout_causes_no_email(sandbox_payer: PayoutMerchant) -> None:
    owner = await _member(sandbox_payer, Role.OWNER)
    trx_id = await sandbox_payer.pay_out("a")
    failed = TransferResult(TransferEvent.FAILED, Source.SANDBOX)
    merchant_id = sandbox_payer.merchant.new.id
    assert await states.apply_result(sandbox_payer.services.db, merchant_id, trx_id, failed)
    assert await _subjects(sandbox_payer, owner) == []


@pytest.mark.parametrize("rail", ["a", MANUAL])
async def test_a_large_payout_causes_one_email(payer: PayoutMerchant, rail: str) -> None:
    owner = await _member(payer, Role.OWNER)
    async with setting(payer.services, "large_payouts", "NGN:2000"):
        await payer.pay_out(rail, payout_amount=1999)
        trx_id = await payer.pay_out(rail, payout_amount=2000)
    for _ in range(2):
        await payer.simulator.run_jobs()
    [letter] = await letters_to(payer.services.db, payer.services.letters, owner)
    assert letter.subject == "Large payout: ₦2,000.00"
    assert (trx_id in letter.text, "with the API" in letter.text) == (True, True)


async def test_a_worker_that_crashes_at_a_large_payout_causes_one_email(
    payer: PayoutMerchant,
) -> None:
    owner, db = await _member(payer, Role.OWNER), payer.services.db
    async with setting(payer.services, "large_payouts", "NGN:2000"):
        trx_id = await payer.pay_out(MANUAL, payout_amount=2000)
    write = worker.job_handlers(payer.services)[JobKind.LARGE_PAYOUT].handler
    # A worker claims the job and crashes before it writes the email.
    [lost] = await _claim(payer, trx_id)
    await db.execute("UPDATE job SET leased_until = now() WHERE subject = $1", trx_id)
    [job] = await _claim(payer, trx_id)
    for each in (lost, job, job):  # The second call of `job` simulates a retry after a crash.
        await write(each)
    assert await _subjects(payer, owner) == ["Large payout: ₦2,000.00"]
    assert await db.number("SELECT count(*) FROM job WHERE subject = $1", trx_id) == 0


async def _claim(payer: PayoutMerchant, trx_id: str) -> list[Job]:
    claimed = await claims.claim(payer.services.db, {JobKind.LARGE_PAYOUT: 50})
    return [job for job in claimed if job.subject == trx_id]


async def test_an_email_says_that_a_bulk_file_is_done(payer: PayoutMerchant) -> None:
    finance = await _member(payer, Role.FINANCE)
    batch_id = await confirmed(payer, [1000, 2000])
    for _ in range(3):
        await payer.simulator.run_job_now(batches.PAY, batch_id)
    [subject] = await _subjects(payer, finance)
    assert subject.endswith("is done")


async def test_owners_get_an_email_when_their_business_is_approved_or_rejected(
    payer: PayoutMerchant,
) -> None:
    owner, viewer = await _member(payer, Role.OWNER), await _member(payer, Role.VIEWER)
    db, keyring, number = payer.services.db, payer.services.keyring, payer.merchant.new.id
    for status, reason in ((MerchantStatus.REJECTED, "No licence."), (MerchantStatus.APPROVED, "")):
        for _ in range(2):
            update = MerchantUpdate(status=status, status_reason=reason or None)
            await merchants.change(db, keyring, number, update)
    _, rejected, approved = await letters_to(db, payer.services.letters, owner)
    assert "No licence." in rejected.text
    assert approved.subject.endswith("is approved")
    assert await _subjects(payer, viewer) == []


async def test_operations_users_get_an_email_about_a_production_case(
    payer: PayoutMerchant,
) -> None:
    _, email = await Accounts(payer.services.db, payer.services.keyring).administrator()
    for reference, environment in (("one", Environment.PRODUCTION), ("two", Environment.SANDBOX)):
        for _ in range(2):
            await cases.open_case(
                payer.services.db,
                CaseKind.WRONG_AMOUNT,
                f"{reference}-{payer.merchant.new.id}",
                "Something differs.",
                merchant_id=payer.merchant.new.id,
                environment=environment,
            )
    assert await _subjects(payer, email) == ["A case was opened: wrong amount"]


async def test_developers_get_an_email_about_a_notification_endpoint_that_fails(
    payer: PayoutMerchant, settings: Settings
) -> None:
    finance, developer = await _member(payer, Role.FINANCE), await _member(payer, Role.DEVELOPER)
    services, merchant = payer.services, payer.merchant
    async with receiving() as receiver, delivery_worker(services) as delivery:
        receiver.answers = [answer(500)] * 3
        deliveries = Deliveries(services, merchant, receiver, delivery, settings.migration_url)
        trx_id = await payer.pay_out("a", ipn_url=receiver.url)
        delivered = TransferResult(TransferEvent.DELIVERED, Source.PROVIDER)
        await states.apply_result(services.db, merchant.new.id, trx_id, delivered)
        for _ in range(2):
            await deliveries.deliver()
            assert await _subjects(payer, developer) == []
            await deliveries.skip_to_next_attempt()
        await deliveries.deliver()
        assert await deliveries.state(trx_id) == "failed"
    [letter] = await letters_to(services.db, services.letters, developer)
    assert (receiver.url in letter.text, trx_id in letter.text) == (True, True)
    assert letter.link.endswith("/dashboard/production/notifications?state=failed")
    assert await _subjects(payer, finance) == []
