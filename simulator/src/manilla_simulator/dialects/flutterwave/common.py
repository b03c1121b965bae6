"""Code that Flutterwave's calls share: the account, errors and transfer fees."""

from decimal import ROUND_HALF_UP, Decimal

from manilla.kit.money import Money
from manilla_simulator.provider import Provider
from manilla_simulator.settings import FlutterwaveAccount
from manilla_simulator.state import CURRENCY, Charge
from manilla_simulator.wire import Denial, Denials

ACCOUNT_ID = 118468
# Each pair is an upper limit of the amount, and the transfer fee up to that limit.
# The API returns the fee 26.875 with three decimals.
TRANSFER_FEES = (
    (Money(CURRENCY, 5_000_00), Decimal("10.75")),
    (Money(CURRENCY, 50_000_00), Decimal("26.875")),
)
HIGHEST_FEE = Decimal("53.75")

DENIALS = Denials(
    insufficient=Denial(400, "Insufficient wallet balance"),
    unresolvable=Denial(400, "Sorry, recipient account could not be validated. Please try again"),
    unknown_bank=Denial(400, "Invalid bank code"),
    duplicate=Denial(400, "Duplicate reference: a transfer with this reference already exists"),
    not_found=Denial(404, "Transfer not found"),
    duplicate_charge=Denial(400, "Duplicate transaction reference"),
    charge_not_found=Denial(400, "No transaction was found for this id"),
    refund_not_paid=Denial(400, "Transaction is not in a successful state"),
    refund_not_found=Denial(404, "Refund not found"),
    refund_too_much=Denial(400, "Refund amount is more than the transaction amount"),
    dispute_not_found=Denial(404, "Chargeback not found"),
    dispute_closed=Denial(400, "Chargeback has already been treated"),
    others=(
        Denial(400, "Refund could not be processed"),
        Denial(400, "Please enable IP Whitelisting to access this service"),
        Denial(400, "This request cannot be processed, please contact support"),
        Denial(400, "Transfers are disabled on this account"),
        Denial(503, "Service unavailable"),
    ),
)


def account_of(provider: Provider) -> FlutterwaveAccount:
    assert isinstance(provider.account, FlutterwaveAccount)
    return provider.account


def is_test(provider: Provider) -> bool:
    return account_of(provider).secret_key.startswith("FLWSECK_TEST-")


def own_reference(charge: Charge) -> str:
    return f"FLW-SIM-{charge.number}"


def transfer_fee(amount: Money) -> Decimal:
    return next((fee for limit, fee in TRANSFER_FEES if amount <= limit), HIGHEST_FEE)


def rounded(fee: Decimal) -> Money:
    return Money.of(fee.quantize(Decimal("0.01"), ROUND_HALF_UP), CURRENCY)
