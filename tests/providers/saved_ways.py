"""Sample charges of saved cards and mandates, and the calls of an adapter for them."""

from datetime import UTC, datetime

from manilla.kit.money import Money
from manilla.providers.port import Adapter, MandateOrder, Mandates, SavedCards, WayOrder

WAY = WayOrder(
    reference="TXN0-1",
    amount=Money("NGN", 101550),
    token="AUTH_1",
    customer_email="ada@example.com",
    customer_name="Ada Obi",
    description="Loan, part 2",
)
MANDATE = MandateOrder(
    reference="WAY1",
    amount=Money("NGN", 5_000_000),
    customer_name="Ada Obi",
    customer_email="ada@example.com",
    customer_phone="+2348012345678",
    customer_address="12 Allen Avenue, Ikeja",
    bank_code="044",
    account_number="0690000031",
    description="Loan 17",
    starts_at=datetime(2026, 12, 1, 8, tzinfo=UTC),
    ends_at=datetime(2027, 12, 1, 8, tzinfo=UTC),
    redirect_url="https://pay.example.com/ways/WAY1",
)
WITH_CARDS = ("paystack", "flutterwave", "monnify")


def cards_of(adapter: Adapter) -> SavedCards:
    assert adapter.cards is not None
    return adapter.cards


def mandates_of(adapter: Adapter) -> Mandates:
    assert adapter.mandates is not None
    return adapter.mandates
