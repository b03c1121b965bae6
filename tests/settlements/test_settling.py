"""Planned and manual settlements pay the correct amount once to the confirmed account."""

import asyncio
import contextlib
import csv
import io
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from email.message import EmailMessage
from typing import Any

import pytest

from manilla.beneficiaries.beneficiary import Beneficiary
from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.ledger.scope import Tenant
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.methods.method import MethodKind
from manilla.proofs import proofs
from manilla.settlements import accounts, plans, settling, statement, store
from manilla.settlements.accounts import NewSettlementAccount
from manilla.settlements.offers import NotSettled
from manilla.settlements.plans import SettlementMode, SettlementPlan
from manilla.settlements.settling import Settling
from manilla.settlements.store import Settlement
from tests.mail.mail_server import MailServer, mail_server, plain_transport
from tests.mail.outbox_reader import letters_to
from tests.mail.post_office import until, worker
from tests.payouts.model import Killed
from tests.payouts.model_machine import dying_at
from tests.payouts.payout_merchant import BANKS, CODES, PayoutMerchant, new_account, setting
from tests.support.changed_rows import changed
from tests.web.signed_in_user import member

BALANCE = 1_000_000  # minor units


class Settler:
    """A production merchant with a settlement account, and the merchant's settlement job."""

    def __init__(self, payer: PayoutMerchant) -> None:
        self.payer = payer
        self.services = payer.services
        self.tenant = Tenant(payer.merchant.new.id, Environment.PRODUCTION)
        self.settling: Settling = payer.services.settling
        self.account = new_account()

    async def set_account(self, name: str) -> None:
        method = self.services.methods.by_code(MethodKind.WITHDRAW, CODES["a"])
        assert method is not None
        who = Beneficiary({"bank_code": BANKS["a"], "account_number": self.account})
        await accounts.choose(
            self.services.db,
            self.tenant,
            NewSettlementAccount(method, who, "Guaranty Trust Bank", name),
            by="owner@example.com",
            wait=timedelta(),
        )

    async def plan(self, mode: SettlementMode = SettlementMode.DAILY, **changed: Any) -> None:
        plan = SettlementPlan(
            merchant_id=self.tenant.merchant_id,
            environment=self.tenant.environment,
            currency="NGN",
            mode=mode,
            set_by="owner@example.com",
            **changed,
        )
        await plans.change(self.services.db, plan)
        await self.services.db.execute(
            "UPDATE settlement_plan SET set_at = now() - interval '9 days' WHERE merchant_id = $1",
            self.tenant.merchant_id,
        )

    async def settle_now(self) -> Settlement:
        """Settles the offered amount, as a user would on the page."""
        offer = await self.settling.offers.find(
            await plans.find(self.services.db, self.tenant, "NGN")
        )
        return await self.settling.settle_now(
            self.tenant, "owner@example.com", account_id=offer.account.id, amount=offer.amount
        )

    async def work(self) -> float | None:
        subject = plans.subject(self.tenant.environment, "NGN")
        job = Job(self.tenant.merchant_id, "settle", subject, 0, 0, 0)
        return await self.settling.advance(job)

    async def newest(self) -> Settlement | None:
        return await store.newest(self.services.db, self.tenant, "NGN")

    async def expect(self) -> Settlement:
        found = await self.newest()
        assert found is not None
        return found

    async def payouts(self) -> list[str]:
        records = await self.services.db.records(
            "SELECT trx_id FROM payout WHERE merchant_id = $1 ORDER BY trx_id",
            self.tenant.merchant_id,
        )
        return [record["trx_id"] for record in records]

    async def decide(self, word: str) -> None:
        """Sends the settlement's payout, and settles it at the provider with this status."""
        trx_id = (await self.payouts())[-1]

        async def is_accepted() -> bool:
            await self.payer.check_now(trx_id)
            return (await self.payer.payout(trx_id)).accepted_at is not None

        await self.payer.simulator.until(is_accepted)
        await self.payer.settle("a", trx_id, word)
        status = "completed" if word == "success" else "failed"
        await self.payer.check_until(trx_id, status)


@pytest.fixture
async def settler(payer: PayoutMerchant) -> AsyncIterator[Settler]:
    await payer._begin()
    await payer.simulator.control("a/faults", {"settle_seconds": 3600})
    found = Settler(payer)
    name = await _resolved(found)
    await found.set_account(name)
    async with setting(payer.services, "settlement_hour", "0"):
        yield found


async def _resolved(settler: Settler) -> str:
    who = Beneficiary({"bank_code": BANKS["a"], "account_number": settler.account})
    return (await settler.services.resolver.resolve("providera", who)).account_name


async def test_a_daily_plan_pays_the_balance_less_reserve_and_fee_once(settler: Settler) -> None:
    await settler.plan(reserve_minor=200_000)
    assert await settler.work() == 0
    await settler.work()
    (trx_id,) = await settler.payouts()
    payout = await settler.payer.payout(trx_id)
    assert payout.account_number == settler.account
    assert payout.amount_minor + payout.fee_minor == BALANCE - 200_000
    assert await settler.payer.balance() == 200_000
    await settler.decide("success")
    await settler.work()
    done = await settler.expect()
    assert (done.state, done.trx_id, done.attempt) == ("paid", trx_id, 1)

    await settler.payer.fund("5000")
    await settler.work()
    assert await settler.payouts() == [trx_id], "a second settlement on the same day"


async def test_a_plan_with_an_amount_waits_until_it_is_available(settler: Settler) -> None:
    await settler.plan(SettlementMode.ABOVE, above_minor=BALANCE + 1)
    await settler.work()
    assert await settler.newest() is None
    await settler.payer.fund("0.01")
    assert await settler.work() == 0
    assert (await settler.expect()).is_open


async def test_a_new_plan_settles_nothing_today(settler: Settler) -> None:
    await settler.plan()
    await settler.services.db.execute(
        "UPDATE settlement_plan SET set_at = now() WHERE merchant_id = $1",
        settler.tenant.merchant_id,
    )
    await settler.work()
    assert await settler.newest() is None


async def test_nothing_is_settled_on_a_holiday(settler: Settler) -> None:
    await settler.plan()
    today = datetime.now(LAGOS).date().isoformat()
    async with setting(settler.services, "holidays", today):
        await settler.work()
        assert await settler.newest() is None
    await settler.work()
    assert await settler.newest() is not None


@pytest.mark.parametrize("point", ["after_settlement_is_started", "after_settlement_is_ordered"])
async def test_a_crash_at_any_point_creates_one_payout(settler: Settler, point: str) -> None:
    await settler.plan()
    with dying_at(point), contextlib.suppress(Killed):
        await settler.work()
        await settler.work()
    for _ in range(3):
        await settler.work()
    assert len(await settler.payouts()) == 1
    assert await settler.payer.balance() == 0


async def test_many_users_and_workers_start_one_settlement(settler: Settler) -> None:
    await settler.plan()
    results = await asyncio.gather(
        settler.settle_now(),
        *(settler.work() for _ in range(4)),
        return_exceptions=True,
    )
    errors = [each for each in results if isinstance(each, BaseException)]
    assert all(isinstance(each, NotSettled) for each in errors), errors
    await asyncio.gather(*(settler.work() for _ in range(4)), return_exceptions=True)
    assert len(await settler.payouts()) == 1


async def test_a_failed_settlement_is_tried_again_three_times_in_all(settler: Settler) -> None:
    await settler.plan()
    for attempt in (1, 2, 3):
        assert await settler.work() == 0
        await settler.work()
        await settler.decide("failed")
        await settler.work()
        ended = await settler.expect()
        assert (ended.state, ended.attempt) == ("failed", attempt)
        assert await settler.payer.balance() == BALANCE
        await settler.work()
        assert len(await settler.payouts()) == attempt, "the retry waits an hour"
        await settler.services.db.execute(
            "UPDATE settlement SET ended_at = now() - interval '61 minutes' WHERE merchant_id = $1",
            settler.tenant.merchant_id,
        )
    await settler.work()
    assert len(await settler.payouts()) == 3, "no fourth attempt on one day"


async def test_a_balance_above_the_limit_for_a_payout_is_settled_in_several_payouts(
    settler: Settler,
) -> None:
    await settler.plan()
    async with setting(settler.services, "payout_limits_unverified", "NGN:6000"):
        for _ in range(2):
            assert await settler.work() == 0
            await settler.work()
            await settler.decide("success")
            await settler.work()
        await settler.work()
        assert (await settler.expect()).is_partial is False
        await settler.payer.fund("5000")
        await settler.work()
    amounts = [(await settler.payer.payout(each)).amount_minor for each in await settler.payouts()]
    assert amounts[0] == 600_000
    assert len(amounts) == 2, "money that arrived later was settled on the same day"
    assert await settler.payer.balance() == 500_000


async def test_a_settlement_stays_within_the_limit_of_the_day(settler: Settler) -> None:
    await settler.plan()
    async with setting(settler.services, "daily_payout_limits_unverified", "NGN:4000"):
        await settler.payer.pay_out(payout_amount=1500)
        assert await settler.work() == 0
        await settler.work()
        assert (await settler.expect()).amount_minor == 250_000
        await settler.decide("success")
        await settler.work()
        await settler.work()
        assert len(await settler.payouts()) == 2
        with pytest.raises(NotSettled, match=r"daily limit of ₦4,000\.00"):
            await settler.settle_now()
    assert (await settler.expect()).state == "paid"


async def test_a_user_settles_only_what_was_reviewed(settler: Settler) -> None:
    offer = await settler.settling.offers.find(
        await plans.find(settler.services.db, settler.tenant, "NGN")
    )
    await settler.payer.fund("1")
    with pytest.raises(NotSettled, match="Review the settlement again"):
        await settler.settling.settle_now(
            settler.tenant, "a@example.com", account_id=offer.account.id, amount=offer.amount
        )
    await settler.settle_now()
    settler.account = new_account()
    await settler.set_account(await _resolved(settler))
    await settler.work()
    ended = await settler.expect()
    assert (ended.state, await settler.payouts()) == ("failed", [])


async def test_another_name_at_the_bank_stops_the_settlement(settler: Settler) -> None:
    settler.account = new_account()
    await settler.set_account("SOMEBODY ELSE ENTIRELY")
    await settler.plan()
    await settler.work()
    await settler.work()
    ended = await settler.expect()
    assert ended.state == "failed"
    assert "reports another account name" in (ended.remark or "")
    assert await settler.payouts() == []
    assert await settler.payer.balance() == BALANCE


async def test_a_disabled_merchant_is_not_settled(settler: Settler) -> None:
    await settler.plan()
    await settler.payer.change(MerchantUpdate(status=MerchantStatus.DISABLED))
    await settler.work()
    await settler.work()
    assert await settler.payouts() == []
    assert await settler.payer.balance() == BALANCE
    assert (await settler.expect()).state == "failed"


async def test_the_reference_of_a_settlement_cannot_be_taken_by_another_payout(
    settler: Settler,
) -> None:
    await settler.plan()
    await settler.work()
    taken = (await settler.expect()).ref_trx
    other = await settler.payer.pay_out(ref_trx=taken, payout_amount=100)
    await settler.work()
    ended = await settler.expect()
    assert (ended.state, ended.trx_id) == ("failed", None)
    assert await settler.payouts() == [other]


async def test_a_manual_settlement_needs_an_account_and_a_balance(payer: PayoutMerchant) -> None:
    await payer._begin()
    settler = Settler(payer)
    with pytest.raises(NotSettled, match="Set a settlement account"):
        await settler.settle_now()
    await settler.set_account(await _resolved(settler))
    await settler.plan(SettlementMode.MANUAL, reserve_minor=BALANCE)
    with pytest.raises(NotSettled, match="too small"):
        await settler.settle_now()


async def test_finance_users_learn_by_email_how_a_settlement_ended(settler: Settler) -> None:
    owner = await member(settler.services, settler.payer.merchant.site, settler.tenant.merchant_id)
    await settler.plan()
    await settler.work()
    await settler.work()
    await settler.decide("failed")
    await settler.work()
    await settler.services.db.execute(
        "UPDATE settlement SET ended_at = now() - interval '2 hours' WHERE merchant_id = $1",
        settler.tenant.merchant_id,
    )
    await settler.work()
    await settler.work()
    await settler.decide("success")
    await settler.work()
    letters = await letters_to(settler.services.db, settler.services.letters, owner.email)
    subjects = [each.subject for each in letters if "ettlement" in each.subject]
    assert subjects == ["Settlement of ₦10,000.00 failed", "Settlement of ₦10,000.00 sent"]


async def test_the_email_names_the_account_that_was_paid(settler: Settler) -> None:
    owner = await member(settler.services, settler.payer.merchant.site, settler.tenant.merchant_id)
    paid = await _resolved(settler)
    await settler.plan()
    await settler.work()
    await settler.work()
    await settler.decide("success")
    settler.account = new_account()
    await settler.set_account("SOMEBODY ELSE ENTIRELY")
    await settler.work()
    letters = await letters_to(settler.services.db, settler.services.letters, owner.email)
    [letter] = [each for each in letters if each.subject.endswith("sent")]
    assert paid in letter.text
    assert "SOMEBODY ELSE ENTIRELY" not in letter.text


async def test_owners_learn_by_email_that_the_account_was_set(payer: PayoutMerchant) -> None:
    settler = Settler(payer)
    owner = await member(payer.services, payer.merchant.site, settler.tenant.merchant_id)
    await settler.set_account("ADAEZE OKAFOR")
    letters = await letters_to(payer.services.db, payer.services.letters, owner.email)
    assert [each.subject.startswith("Settlement account of") for each in letters] == [True]
    assert f"ADAEZE OKAFOR, Guaranty Trust Bank …{settler.account[-4:]}" in letters[0].text


async def _sent_mail(settler: Settler) -> EmailMessage:
    """Pays a settlement, and returns the email about it that the mail server has received."""
    services, merchant_id = settler.services, settler.tenant.merchant_id
    owner = await member(services, settler.payer.merchant.site, merchant_id)
    await settler.plan()
    await settler.work()
    await settler.work()
    await settler.decide("success")
    await settler.work()
    async with mail_server() as server, worker(services, plain_transport(server.port)):

        async def has_arrived() -> bool:
            return bool(_about_settlements(server, owner.email))

        await until(has_arrived)
        [message] = _about_settlements(server, owner.email)
        return message


def _about_settlements(server: MailServer, email: str) -> list[EmailMessage]:
    return [each for each in server.to(email) if each["Subject"].startswith("Settlement of")]


async def test_the_email_about_a_settlement_has_its_statement(settler: Settler) -> None:
    message = await _sent_mail(settler)
    settlement = await settler.expect()
    [attached] = message.iter_attachments()
    assert attached.get_filename() == f"settlement-{settlement.id}.csv"
    assert attached.get_content_type() == "text/csv"
    content = attached.get_payload(decode=True)
    assert isinstance(content, bytes)
    [funding] = list(csv.DictReader(io.StringIO(content.decode())))
    assert (funding["Kind"], funding["Amount"], funding["Balance"]) == (
        "funding",
        "10000.00",
        "10000.00",
    )
    assert [*funding][-3:] == ["Reference", "Name", "Fee"]
    text = message.get_body(("plain",))
    assert text is not None
    assert "The statement is attached" in text.get_content()


async def test_a_statement_that_is_too_large_for_an_email_is_not_attached(
    settler: Settler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "ATTACHED_BYTES_MAX", 100)
    assert list((await _sent_mail(settler)).iter_attachments()) == []


async def test_a_settlement_account_that_was_changed_in_the_database_is_not_paid(
    settler: Settler, owner: Database
) -> None:
    await settler.plan()
    other = f'beneficiary = beneficiary || \'{{"account_number": "{new_account()}"}}\''
    of_merchant = str(settler.tenant.merchant_id), "merchant_id"
    async with changed(owner, "settlement_account", other, *of_merchant):
        await settler.work()
        await settler.work()
        ended = await settler.expect()
        assert (ended.state, ended.remark) == ("failed", settling.NOT_AS_SET)
        found = await proofs.check(settler.services.db)
        assert [each.name for each in found if each.count] == ["settlement_accounts_are_as_set"]
    assert await settler.payouts() == []
