"""Transfers into customers' accounts pay the merchant's plan and its taxes."""

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.payment import PaymentStatus
from manilla.prices.price import PriceLine, TaxBearer, Way
from manilla.providers.port import AccountTransfer, Payer, ReportedChargeStatus
from manilla.services import Services
from tests.customers.steps import Customers
from tests.payments.shop import Shop
from tests.prices.building import line, plan, tax
from tests.prices.conftest import UsePrices, use_prices
from tests.support.client import Merchant
from tests.support.provider_simulator import ProviderSimulator

__all__ = ["use_prices"]

PROVIDER, NUMBER = "paystack", "9911223344"


def percent(number: str, **for_what: Any) -> PriceLine:
    return line(PriceTerms(percent=Decimal(number)), **for_what)


BY_METHOD = percent("0.5", method="paystack_ngn_va")
ACCOUNT, TRANSFER = percent("1", way=Way.ACCOUNT), percent("2", way=Way.BANK_TRANSFER)
CARD, ANY = percent("4", way=Way.CARD), percent("3")


@pytest.fixture
async def customers(
    services: Services, simulated_providers: ProviderSimulator, production: Merchant
) -> AsyncIterator[Customers]:
    steps = Customers(Shop(services, simulated_providers, production))
    await steps.account_without_provider(NUMBER)
    yield steps
    assert await steps.broken_rules() == []
    await services.db.execute("UPDATE customer_account SET account_number = id")


async def receive(customers: Customers, amount: str, reference: str = "T-1") -> None:
    transfer = AccountTransfer(
        reference=f"{reference}-{customers.tenant.merchant_id}",
        status=ReportedChargeStatus.PAID,
        paid=Money.of(amount, "NGN"),
        payer=Payer(name="Chidi Eze"),
        account_number=NUMBER,
    )
    await customers.services.receiving.report(PROVIDER, transfer)


@pytest.mark.parametrize(
    ("lines", "commission"),
    [
        ((CARD, ANY, TRANSFER, ACCOUNT, BY_METHOD), 5_00),
        ((CARD, ANY, TRANSFER, ACCOUNT), 10_00),
        ((CARD, ANY, TRANSFER), 20_00),
        ((CARD, ANY), 30_00),
        ((CARD,), 15_00),  # no line matches, so the merchant's own percentage counts
    ],
)
async def test_the_most_specific_line_is_charged(
    customers: Customers, use_prices: UsePrices, lines: tuple[PriceLine, ...], commission: int
) -> None:
    await customers.shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    use_prices(customers.tenant.merchant_id, plan(*lines))
    await receive(customers, "1000")
    [payment] = await customers.payments()
    assert payment.commission_minor == commission
    assert await customers.shop.balance() == 1000_00 - commission
    assert await customers.shop.account("commission") == commission


@pytest.mark.parametrize("bearer", [TaxBearer.PAYER, TaxBearer.MERCHANT, TaxBearer.CUSTOMER])
async def test_the_merchant_bears_the_taxes(
    customers: Customers, use_prices: UsePrices, bearer: TaxBearer
) -> None:
    """The customer has sent an amount already, and cannot pay a tax on top of it."""
    use_prices(customers.tenant.merchant_id, plan(ACCOUNT), tax(borne_by=bearer))
    await receive(customers, "1000")
    [payment] = await customers.payments()
    assert (payment.commission_minor, payment.tax_minor) == (10_00, 75)
    assert payment.customer_tax_minor == 0
    assert await customers.shop.balance() == 1000_00 - 10_00 - 75
    assert await customers.shop.account("tax:vat") == 75


async def test_a_fee_above_the_amount_holds_the_transfer(
    customers: Customers, use_prices: UsePrices
) -> None:
    fixed = line(PriceTerms(fixed_minor=100_00), way=Way.ACCOUNT)
    use_prices(customers.tenant.merchant_id, plan(fixed), tax())
    await receive(customers, "107.49")
    [payment] = await customers.payments()
    assert payment.status is PaymentStatus.FAILED
    assert await customers.shop.balance() == 0
    assert await customers.shop.account("suspense") == 107_49
    [(kind, detail)] = await customers.cases()
    assert (kind, "below the commission of" in detail) == ("account_transfer", True)
    await receive(customers, "107.50", "T-2")
    assert await customers.shop.balance() == 0
    assert await customers.shop.account("commission") == 100_00
