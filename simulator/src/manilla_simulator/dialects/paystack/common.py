"""Code that Paystack's calls share: the account, errors and customers."""

from collections.abc import Sequence
from typing import Any, TypeVar

from manilla.kit.money import Money
from manilla_simulator.provider import Provider
from manilla_simulator.settings import PaystackAccount
from manilla_simulator.state import Charge
from manilla_simulator.wire import Ask, Denial, Denials, Fields, Refused

INTEGRATION = 463433
PAGE_SIZE = 100

T = TypeVar("T")

INVALID_AMOUNT = Denial(400, "Invalid Amount Sent", "invalid_amount", "amount")
INVALID_TRANSFER_AMOUNT = Denial(400, "Invalid amount passed.", "invalid_amount", "amount")
INVALID_EMAIL = Denial(400, "Invalid Email Address Passed", "invalid_email_address", "email")
INVALID_REFERENCE = Denial(
    400, "Invalid character in transaction reference", "invalid_character_in_reference", "reference"
)
INVALID_TRANSFER_REFERENCE = Denial(
    400, "Your reference contains illegal special characters", "invalid_reference", "reference"
)
INVALID_RECIPIENT = Denial(400, "Recipient specified is invalid", "invalid_transfer_recipient")
INVALID_AUTHORIZATION = Denial(400, "Authorization code is invalid", "invalid_authorization_code")
NOT_REUSABLE = Denial(400, "This authorization is not reusable", "not_reusable")
OTHER_EMAIL = Denial(
    400,
    "Email does not match Authorization code. Authorization may be inactive or belong to a "
    "different email. Please confirm.",
    "email_mismatch",
)
# A card that was declined ten times in a row can be charged only once in 24 hours.
REGULATED = Denial(400, "Charge attempt cannot be fulfilled until 1380 minutes", "charge_regulated")
UNKNOWN_ERROR = "unknown"  # the code of an error that Paystack does not explain
UNKNOWN_CHARGE = Denial(404, "Transaction reference not found", "transaction_not_found")
DENIALS = Denials(
    insufficient=Denial(
        400, "Your balance is not enough to fulfil this request", "insufficient_balance"
    ),
    unresolvable=Denial(
        422, "Could not resolve account name. Check parameters or try again.", "invalid_account"
    ),
    unknown_bank=Denial(400, "Unknown bank code", "invalid_bank_code"),
    duplicate=Denial(
        400,
        "Please provide a unique reference. Reference already exists on a transfer",
        "duplicate_transfer_reference",
    ),
    not_found=Denial(404, "Transfer not found"),
    duplicate_charge=Denial(400, "Duplicate Transaction Reference", "duplicate_reference"),
    charge_not_found=UNKNOWN_CHARGE,
    refund_not_found=Denial(404, "Refund not found", "refund_not_found"),
    refund_insufficient=Denial(
        400, "Insufficient balance to fulfill this refund. Please top up.", "insufficient_balance"
    ),
    refund_not_paid=Denial(
        400, "Transaction is not eligible for a refund", "transaction_not_refundable"
    ),
    refund_too_much=Denial(400, "Transaction has been fully reversed", "transaction_reversed"),
    dispute_not_found=Denial(404, "Dispute not found", "dispute_not_found"),
    dispute_closed=Denial(400, "Dispute has already been resolved", "dispute_resolved"),
    others=(
        INVALID_RECIPIENT,
        Denial(
            400, "You cannot initiate third party payouts as a starter business", "not_permitted"
        ),
        Denial(400, "You cannot initiate third party payouts at this time", "not_permitted"),
        Denial(400, "Transfer amount is above your daily limit", "limit_exceeded"),
        Denial(400, "Account closed", "invalid_account"),
        Denial(400, "System Malfunction", UNKNOWN_ERROR),
        Denial(429, "Please wait a few minutes and try again.", "rate_limited"),
    ),
)
# Maps each error code to the advice in the error response's field `meta.nextStep`.
NEXT_STEPS = {
    "invalid_transfer_recipient": "Provide a valid recipient. "
    "Ensure you are passing the recipient code in the recipient param",
    "transaction_not_found": "Ensure that you're passing the reference of a transaction "
    "that exists on this integration",
    "duplicate_reference": "Generate and pass a new reference",
    "duplicate_transfer_reference": "Generate and pass a new reference",
    UNKNOWN_ERROR: "Try again later",
    "insufficient_balance": "Top up your balance and try again",
}


def account_of(provider: Provider) -> PaystackAccount:
    assert isinstance(provider.account, PaystackAccount)
    return provider.account


def is_test(provider: Provider) -> bool:
    return account_of(provider).secret_key.startswith("sk_test_")


def domain(provider: Provider) -> str:
    return "test" if is_test(provider) else "live"


def kobo(fields: Fields, denial: Denial, name: str = "amount") -> Money:
    amount = fields.kobo(name)
    if amount is None:
        raise Refused(denial)
    return amount


def page_of(ask: Ask, items: Sequence[T], overlap: int = 0) -> tuple[Sequence[T], dict[str, Any]]:
    """Returns the requested page and the response's `meta`. Pages overlap by `overlap` items."""
    number, size = ask.page("perPage", PAGE_SIZE)
    skipped = (number - 1) * max(size - overlap, 1)
    meta = {
        "total": len(items),
        "skipped": skipped,
        "perPage": size,
        "page": number,
        "pageCount": number + -(-max(len(items) - skipped - size, 0) // size),
    }
    return items[skipped : skipped + size], meta


def customer(charge: Charge) -> dict[str, Any]:
    account = charge.permanent
    return {
        "id": account.number if account else charge.number + 500_000_000,
        "first_name": None,
        "last_name": None,
        "email": charge.customer_email,
        "customer_code": account.holder if account else f"CUS_{charge.number:x}",
        "phone": None,
        "metadata": None,
        "risk_action": "default",
        "international_format_phone": None,
    }
