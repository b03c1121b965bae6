"""Translation of the providers' decline reasons into messages for customers."""

import pytest

from manilla.payments.declines import decline_of
from manilla.payments.payment import PaymentErrorCode


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("Declined", "Your bank declined the payment."),
        ("", "Your bank declined the payment."),
        ("<b>Do not honour</b>", "Your bank declined the payment."),
        ("Transaction expired", "Your bank declined the payment."),
        ("INSUFFICIENT_FUNDS", "The account or card did not have enough money."),
        ("Not sufficient funds", "The account or card did not have enough money."),
        ("Expired card", "Your card has expired."),
        ("Incorrect PIN", "The card details or the PIN were not correct."),
        ("OTP validation failed", "Your bank could not confirm that you made this payment."),
        ("Exceeds withdrawal limit", "The amount is above a limit of your card or account."),
        (
            "Transaction not permitted to cardholder",
            "Your bank does not allow this kind of payment with your card.",
        ),
        ("Issuer or switch inoperative", "Your bank did not respond."),
        ("Payment cancelled by customer", "The payment was canceled."),
    ],
)
def test_a_providers_reason_becomes_a_plain_text(reason: str, text: str) -> None:
    decline = decline_of(reason)
    assert decline.text.startswith(text)
    assert decline.text.endswith("way to pay.")
    is_short = "money" in text
    assert (decline.error_code is PaymentErrorCode.INSUFFICIENT_FUNDS) is is_short
