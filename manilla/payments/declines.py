"""Explains to customers why a charge was declined.

Each provider describes declines differently. Customers see our texts, never the provider's.
"""

import re

import msgspec

from manilla.payments.payment import PaymentErrorCode


class Decline(msgspec.Struct, frozen=True):
    text: str  # for the customer
    error_code: PaymentErrorCode = PaymentErrorCode.PAYMENT_DECLINED


DECLINED = Decline(
    "Your bank declined the payment. Try another card, or choose another way to pay."
)
NO_MONEY = Decline(
    "The account or card did not have enough money. Please choose another way to pay.",
    PaymentErrorCode.INSUFFICIENT_FUNDS,
)

# Maps patterns in a provider's decline message to our declines. The first match is used.
_MEANINGS: tuple[tuple[str, Decline], ...] = (
    (r"insufficient|not sufficient", NO_MONEY),
    (
        r"expired card|card (has |is )?expired",
        Decline("Your card has expired. Try another card, or choose another way to pay."),
    ),
    (
        r"(incorrect|invalid|wrong) (card|cvv|cvc|pin|expiry)|bad cvv|no such card",
        Decline(
            "The card details or the PIN were not correct. Try another card, or"
            " choose another way to pay."
        ),
    ),
    (
        r"\botp\b|3ds|3d secure|authentication|not authenticated|token not generated",
        Decline(
            "Your bank could not confirm that you made this payment. Try another card, or"
            " choose another way to pay."
        ),
    ),
    (
        r"\blimit",
        Decline(
            "The amount is above a limit of your card or account. Try another card, or"
            " choose another way to pay."
        ),
    ),
    (
        r"not permitted|not allowed|restricted card|card restricted|not enabled",
        Decline(
            "Your bank does not allow this kind of payment with your card. Try another card, or"
            " choose another way to pay."
        ),
    ),
    (
        r"inoperative|unavailable|malfunction|system error|time(d)? ?out|no response",
        Decline("Your bank did not respond. Please try again, or choose another way to pay."),
    ),
    (
        r"cancell?ed|abandoned",
        Decline("The payment was canceled. You can try again, or choose another way to pay."),
    ),
)


def decline_of(reason: str) -> Decline:
    words = reason.lower().replace("_", " ")
    found = (decline for pattern, decline in _MEANINGS if re.search(pattern, words))
    return next(found, DECLINED)
