"""Transfers that do not fit: bad amounts and names, closed accounts, reused numbers, refunds."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from manilla.customers import accounts, erasure, statements
from manilla.customers.account import AccountStatus
from manilla.customers.receiving import Receiving
from manilla.kit.money import Money
from manilla.merchants.merchants import CommissionBearer, MerchantStatus, MerchantUpdate
from manilla.payments.payment import PaymentStatus
from manilla.providers.port import AccountTransfer, Payer, ReportedChargeStatus
from manilla.reconciliation import importing
from manilla.reconciliation.lines import day_of
from manilla.refunds import initiate as refunds
from manilla.services import Services
from tests.customers.steps import Customers
from tests.payments.orders import order
from tests.payments.shop import Shop
from tests.payments.steps import setting
from tests.support.client import Merchant, Site
from tests.support.provider_simulator import ProviderSimulator, running_simulator

RAIL, DAY = "paystack", "daily_payment_limits_unverified"


@pytest.fixture(scope="module")
async def providers(services: Services, site: Site) -> AsyncIterator[ProviderSimulator]:
    async with running_simulator(services, (RAIL,)) as running:
        yield running


@pytest.fixture
async def customers(
    services: Services, providers: ProviderSimulator, production: Merchant
) -> AsyncIterator[Customers]:
    await providers.reset()
    steps = Customers(Shop(services, providers, production))
    yield steps
    assert await steps.broken_rules() == []


def transfer(number: str | None, amount: str = "1000", **changed: object) -> AccountTransfer:
    values: dict[str, object] = {
        "reference": f"T{datetime.now(UTC).timestamp()}",
        "status": ReportedChargeStatus.PAID,
        "paid": Money.of(amount, "NGN"),
        "payer": Payer(name="Chidi Eze"),
        "account_number": number,
    }
    return AccountTransfer(**(values | changed))  # type: ignore[arg-type]


def receiving(customers: Customers) -> Receiving:
    return customers.services.receiving


async def report(customers: Customers, one: AccountTransfer) -> None:
    await receiving(customers).report(RAIL, one)


async def held(customers: Customers) -> tuple[int, str]:
    """Returns the money in suspense, and why it is held. Nothing was credited."""
    assert await customers.shop.balance() == 0
    [(kind, detail)] = await customers.cases()
    assert kind == "account_transfer"
    assert {each.status for each in await customers.payments()} == {PaymentStatus.FAILED}
    return await customers.shop.account("suspense"), detail


async def test_the_merchant_bears_the_commission(customers: Customers) -> None:
    await customers.shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    account = await customers.account(RAIL)
    await report(customers, transfer(account.account_number))
    [payment] = await customers.payments()
    assert (payment.amount_minor, payment.commission_minor) == (1000_00, 15_00)
    assert payment.commission_bearer is CommissionBearer.MERCHANT
    assert await customers.shop.balance() == 985_00


async def test_a_transfer_of_one_kobo_is_held(customers: Customers) -> None:
    account = await customers.account(RAIL)
    await report(customers, transfer(account.account_number, "0.01"))
    assert await held(customers) == (1, "The minimum is 1.00.")


async def test_a_transfer_of_a_billion_is_credited(customers: Customers) -> None:
    account = await customers.account(RAIL)
    await report(customers, transfer(account.account_number, "1000000000"))
    assert await customers.shop.balance() == 10**11


async def test_another_currency_is_held(customers: Customers) -> None:
    account = await customers.account(RAIL)
    await report(customers, transfer(account.account_number, paid=Money.of("10", "USD")))
    [(_, detail)] = await customers.cases()
    assert "The account is for NGN" in detail
    assert await customers.shop.balance() == 0


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("é" * 300, "é" * 200),
        ("عائشة " * 50, ("عائشة " * 50)[:200].strip()),
        ("Chidi\x00Eze\u202e", "Chidi Eze"),
        ("\x00", None),
    ],
    ids=["long", "Arabic", "control characters", "nothing else"],
)
async def test_any_name_of_the_payer_is_received(
    customers: Customers, sent: str, kept: str | None
) -> None:
    account = await customers.account(RAIL)
    await customers.send(account, "1000", payer_name=sent)
    [payment] = await customers.until_payments(1)
    assert payment.status is PaymentStatus.SUCCESS
    assert msgspec.json.decode(payment.payer or "", type=Payer).name == kept


async def test_a_hundred_transfers_to_one_number_are_credited(customers: Customers) -> None:
    """Webhooks and polls report each of them several times."""
    account = await customers.account(RAIL)
    await customers.shop.simulator.control(
        f"{RAIL}/faults", {"webhooks": {"mode": "duplicate", "copies": 2}}
    )
    await asyncio.gather(*(customers.send(account, "10") for _ in range(100)))
    await customers.poll(account)
    await customers.until_payments(100)
    await customers.poll(account)
    assert len(await customers.payments()) == 100
    assert await customers.shop.balance() == 1000_00
    assert (await customers.events()).count("payment.success") == 100
    assert await customers.cases() == []


async def test_a_closed_merchant_gets_no_money_of_customers(customers: Customers) -> None:
    account = await customers.account(RAIL)
    await customers.shop.change(MerchantUpdate(status=MerchantStatus.DISABLED))
    await report(customers, transfer(account.account_number))
    assert await held(customers) == (1000_00, "The merchant account is disabled.")


async def test_a_transfer_above_the_daily_limit_is_held(customers: Customers) -> None:
    """The limit counts every payment of the day, but not the transfers that are held."""
    account = await customers.account(RAIL)
    async with setting(customers.services, DAY, "NGN:2500"):
        await customers.shop.start(payment_amount=500)
        for amount in ("1000", "1001", "1000", "0.01"):
            await report(customers, transfer(account.account_number, amount))
        reply = await customers.shop.merchant.post("/api/v1/initiate-payment", order())
        assert reply.code == "INVALID_AMOUNT"
    assert await customers.shop.balance() == 2000_00
    text = "The merchant's payments of the day would exceed its daily limit of ₦2,500.00."
    assert [detail for _, detail in await customers.cases()] == [text, "The minimum is 1.00."]
    assert await customers.shop.account("suspense") == 1001_01


async def test_transfers_at_once_do_not_exceed_the_daily_limit(customers: Customers) -> None:
    account = await customers.account(RAIL)
    async with setting(customers.services, DAY, "NGN:3000"):
        many = [transfer(account.account_number, reference=f"D-{n}") for n in range(8)]
        await asyncio.gather(*(report(customers, one) for one in many))
    assert await customers.shop.balance() == 3000_00
    assert await customers.shop.account("suspense") == 5000_00


async def test_a_transfer_into_a_closed_account_is_held(customers: Customers) -> None:
    account = await customers.account(RAIL)
    await accounts.close(customers.db, customers.tenant, "pupil-17", account.id)
    await report(customers, transfer(account.account_number))
    minor, detail = await held(customers)
    assert (minor, detail) == (1000_00, f"The account {account.id} is closed.")
    await customers.until(account, AccountStatus.CLOSED)


async def test_a_reused_number_never_credits_the_old_customer(customers: Customers) -> None:
    old = await customers.account(RAIL)
    requested = await customers.request(await customers.customer("pupil-18"), RAIL)
    target = f"{RAIL}/accounts/{requested.email}/number"

    async def is_given() -> bool:
        await customers.make_due()
        body = {"number": old.account_number}
        return await customers.shop.simulator.try_control(target, body) == 200

    await customers.shop.simulator.until(is_given)
    new = await customers.until(requested, AccountStatus.ACTIVE)
    assert new.account_number == old.account_number
    assert (await customers.now(old)).status is AccountStatus.CLOSED
    await report(customers, transfer(old.account_number, holder=new.holder))
    [payment] = await customers.payments()
    assert payment.customer_reference == "pupil-18"
    earlier = datetime.now(UTC) - timedelta(hours=1)
    await report(customers, transfer(old.account_number, holder=old.holder, paid_at=earlier))
    assert len(await customers.cases()) == 1
    assert await customers.shop.balance() == 1000_00


async def test_another_owner_of_the_number_is_held(customers: Customers) -> None:
    account = await customers.account(RAIL)
    await report(customers, transfer(account.account_number, holder="CUS_other"))
    minor, detail = await held(customers)
    assert (minor, "another customer" in detail) == (1000_00, True)


async def test_a_transfer_into_an_unknown_account_posts_nothing(customers: Customers) -> None:
    one = transfer("9999999999")
    await report(customers, one)
    assert await customers.payments() == []
    assert await customers.db.has_row(
        "SELECT true FROM operator_case WHERE kind = 'unknown_account' AND reference = $1",
        f"{RAIL}:{one.reference}",
    )


async def test_concurrent_reports_credit_a_transfer_once(customers: Customers) -> None:
    account = await customers.account(RAIL)
    one = transfer(account.account_number)
    await asyncio.gather(*(report(customers, one) for _ in range(8)))
    assert len(await customers.payments()) == 1
    assert await customers.shop.balance() == 1000_00
    assert await customers.cases() == []


async def test_a_report_with_more_money_holds_the_difference(customers: Customers) -> None:
    account = await customers.account(RAIL)
    one = transfer(account.account_number)
    await report(customers, one)
    await report(customers, msgspec.structs.replace(one, paid=Money.of("1200", "NGN")))
    assert await customers.shop.balance() == 1000_00
    assert [kind for kind, _ in await customers.cases()] == ["wrong_amount"]
    assert await customers.shop.account("suspense") == 200_00


async def test_a_failed_account_has_a_reason(customers: Customers) -> None:
    requested = await customers.request(await customers.customer(name="Ada Mismatch"), RAIL)
    failed = await customers.until(requested, AccountStatus.FAILED)
    assert failed.error_code == "account_details_rejected"
    assert "BVN" in (failed.error or "")


async def test_an_account_without_a_needed_number_fails_before_the_request(
    customers: Customers,
) -> None:
    requested = await customers.request(await customers.customer(phone=None), RAIL)
    failed = await customers.until(requested, AccountStatus.FAILED)
    assert failed.error == "The provider needs the customer's phone number. Update the customer."
    assert failed.sent_at is None


async def test_a_payment_into_an_account_can_be_refunded(customers: Customers) -> None:
    account = await customers.account(RAIL)
    await customers.send(account, "1000")
    [payment] = await customers.until_payments(1)
    refund = await refunds.start(customers.db, payment.trx_id, "400", "paid twice")

    async def is_paid() -> bool:
        status = await customers.db.value(
            "SELECT status FROM refund WHERE trx_id = $1", refund.trx_id
        )
        return bool(status == "completed")

    await customers.shop.simulator.until(is_paid)
    assert await customers.shop.balance() == 600_00
    await refunds.start(customers.db, payment.trx_id, "600", "paid twice")
    await customers.shop.simulator.until(is_paid)
    await customers.poll(account)
    assert await customers.cases() == []


async def test_a_statement_finds_a_transfer_that_nothing_else_reported(
    customers: Customers,
) -> None:
    account = await customers.account(RAIL)
    simulator = customers.shop.simulator
    await simulator.control(f"{RAIL}/faults", {"webhooks": {"mode": "lost"}})
    await customers.send(account, "1000")
    adapter = customers.services.rails.adapter(RAIL)
    assert adapter is not None
    today = day_of(datetime.now(UTC))
    kinds = customers.services.rails.credentials(RAIL).kind.capabilities.statements
    span = today - timedelta(days=1), today + timedelta(days=1)
    await importing.import_from_provider(customers.db, adapter, kinds, *span)
    await statements.query_missing(customers.db, customers.services.rails)
    [payment] = await customers.until_payments(1)
    assert payment.status is PaymentStatus.SUCCESS
    await customers.poll(account)
    assert len(await customers.payments()) == 1


async def test_an_erased_customer_keeps_payments_without_names(customers: Customers) -> None:
    account = await customers.account(RAIL, email="ada@example.com")
    await report(customers, transfer(account.account_number))
    exported = await erasure.export(customers.db, customers.tenant, "pupil-17")
    assert exported["payments"][0]["payer"]["name"] == "Chidi Eze"
    await erasure.erase(customers.db, customers.tenant, "pupil-17")
    [payment] = await customers.payments()
    assert (payment.customer_name, payment.customer_email) == (None, None)
    assert msgspec.json.decode(payment.payer or "", type=Payer).name is None
    assert payment.amount_minor == 1000_00
    erased = await customers.customer_of(account)
    assert (erased.name, erased.email, erased.bvn_given) == ("Erased", None, False)
    await customers.until(account, AccountStatus.CLOSED)


@pytest.mark.long
async def test_a_thousand_transfers_to_one_number_are_credited(customers: Customers) -> None:
    account = await customers.account(RAIL)
    many = [transfer(account.account_number, "1", reference=f"T-{n}") for n in range(1000)]
    for start in range(0, 1000, 8):
        some = many[start : start + 8]
        await asyncio.gather(*(report(customers, one) for one in (*some, *some)))
    assert await customers.shop.balance() == 1000_00
    assert len(await customers.payments()) == 1000
