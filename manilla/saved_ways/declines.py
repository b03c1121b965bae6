"""Why a charge of a saved way was declined: one table for all providers, which merchants see.

A soft decline can succeed later without a change. After a hard decline, the merchant must not
repeat the charge: the customer has to pay in another way.
"""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import msgspec

from manilla.kit.fields import api_field


class DeclineKind(StrEnum):
    SOFT = "soft"
    HARD = "hard"


class DeclineRule(msgspec.Struct, frozen=True):
    code: str
    kind: DeclineKind
    pattern: str  # of the provider's reason
    meaning: str
    retry_after: timedelta | None = None
    ends_way: bool = False  # the way cannot be charged again


class ChargeDecline(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why the charge was declined."""

    code: Annotated[str, api_field("The reason.")]
    kind: Annotated[
        str,
        api_field(
            "`soft`: the charge can succeed later. `hard`: do not repeat it.",
            enum=[str(each) for each in DeclineKind],
        ),
    ]
    retry_after: Annotated[
        int | None, api_field("The seconds after which a retry can succeed.")
    ] = None


EXPIRED_CARD = "expired_card"
SOFT, HARD = DeclineKind.SOFT, DeclineKind.HARD
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
_WAIT = re.compile(r"until (\d{1,5}) minutes?", re.IGNORECASE)

# The first rule whose pattern is found applies. The last one matches everything.
RULES: tuple[DeclineRule, ...] = (
    DeclineRule(
        *("revoked", HARD, r"^revoked$"),
        *("The customer or you have revoked this way to pay.", None, True),
    ),
    DeclineRule(
        *("retry_limit", SOFT, r"^retry limit$"),
        *("The way was declined too often.", DAY),
    ),
    DeclineRule(
        *("not_sent", SOFT, r"^not sent$"),
        *("The provider did not receive the charge.", timedelta(minutes=5)),
    ),
    DeclineRule(
        *(EXPIRED_CARD, HARD, r"expired[ _]card|card (token )?(has )?expired"),
        *("The card has expired.", None, True),
    ),
    DeclineRule(
        *("mandate_ended", HARD, r"mandate (is not active|not found|has expired|is inactive)"),
        *("The mandate has ended, or is suspended.", None),
    ),
    DeclineRule(
        *("amount_too_high", HARD, r"exceeds mandate|amount is above|at least"),
        "The amount is outside of the limits of the mandate or the provider.",
    ),
    DeclineRule(
        "way_invalid",
        HARD,
        r"authorization code (is invalid|does not exist)|not reusable|email does not match"
        r"|invalid (card )?token|token not found|wrong token|token is required|no token",
        "The provider does not know this way to pay any more.",
        None,
        True,
    ),
    DeclineRule(
        *("card_blocked", HARD, r"lost|stolen|pick ?up|restricted|blocked|hot card|fraud"),
        *("The bank has blocked the card.", None, True),
    ),
    DeclineRule(
        *("account_closed", HARD, r"account (is )?closed|closed account|no such (account|card)"),
        *("The account behind the card or mandate is closed.", None, True),
    ),
    DeclineRule(
        *("authentication_required", HARD, r"\botp\b|3ds|3d secure|authenticat|\bpin\b"),
        "The bank requires the customer to confirm this payment on checkout.",
    ),
    DeclineRule(
        *("insufficient_funds", SOFT, r"insufficient|not sufficient"),
        *("The account does not have enough money.", DAY),
    ),
    DeclineRule(
        *("wait", SOFT, r"cannot be fulfilled until"),
        *("The card was declined too often at all businesses. `retry_after` says when.", DAY),
    ),
    DeclineRule(
        *("limit_exceeded", SOFT, r"\blimit|exceed"),
        *("The amount is above a limit of the card or account.", DAY),
    ),
    DeclineRule(
        "issuer_unavailable",
        SOFT,
        r"inoperative|unavailable|malfunction|system error|time(d)? ?out|no response",
        "The bank did not respond.",
        HOUR,
    ),
    DeclineRule(*("declined", SOFT, r""), *("The bank gave no reason.", DAY)),
)


def rule_of(reason: str) -> DeclineRule:
    words = reason.lower().replace("_", " ")
    return next(rule for rule in RULES if re.search(rule.pattern, words))


def decline_of(reason: str) -> ChargeDecline:
    rule = rule_of(reason)
    retry_after = rule.retry_after
    if waiting := _WAIT.search(reason):
        retry_after = timedelta(minutes=int(waiting[1]))
    seconds = None if retry_after is None else int(retry_after.total_seconds())
    return ChargeDecline(rule.code, rule.kind, seconds)
