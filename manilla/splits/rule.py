"""The rule of a split: who gets which part of a payment, and who bears what it costs."""

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Final, Literal

import msgspec

from manilla.kit.errors import Refusal
from manilla.kit.fields import api_field
from manilla.kit.ids import TimedIds
from manilla.kit.money import Money, MoneyError

RULE_IDS = TimedIds("SPL", 1_000, 10)
SUB_ACCOUNT = "SUB"  # the prefix of a sub-account's id, which its merchant number follows
RECEIVERS_MAX, HOLD_DAYS_MAX, PERCENT_DECIMALS = 20, 365, 4
NAME_LENGTH_MAX = 100
OWNER: Final = "owner"
PROPORTIONAL: Final = "proportional"

Party = str | int  # `owner`, a merchant's number, or the id of a sub-account
Hold = Literal["none", "release"] | Annotated[int, msgspec.Meta(ge=1, le=HOLD_DAYS_MAX)]


# The fields, as the API describes them.
RECEIVERS = "1 to 20 receivers, besides you."
REST = "Who gets what the receivers' parts and the rounding leave: `owner`, or a receiver."
FEES = "Who bears the commission and taxes that you pay: `owner`, `proportional`, or a receiver."
REFUNDS = "Who bears refunds: all in proportion, or the owner."
DISPUTES = "Who bears disputes: `owner`, `proportional`, or a receiver."
HOLD = "Whether shares are held until you release them (`release`), or for a number of days."


class SplitInvalid(Refusal):
    code = "split_invalid"
    message = "The split is not possible. Correct the named fields."


class PartsAboveAmount(SplitInvalid):
    """The rule can divide larger payments."""


class ReceiverTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A receiver and its part. The receiver of the rest has neither percent nor fixed amount."""

    merchant_id: Annotated[
        int | None, api_field("A merchant that has accepted your invitation.")
    ] = None
    sub_account: Annotated[str | None, api_field("The id of one of your sub-accounts.")] = None
    percent: Annotated[Decimal | None, api_field("The percentage of the amount.")] = None
    fixed: Annotated[Decimal | None, api_field("A fixed amount, instead of a percentage.")] = None
    minimum: Annotated[
        Decimal | None, api_field("The smallest amount that a percentage gives.")
    ] = None

    @property
    def name(self) -> str:
        return self.sub_account or str(self.merchant_id)

    @property
    def number(self) -> int:
        """The number of the receiver's merchant, or 0 if the id is not one of a sub-account."""
        digits = (self.sub_account or "").removeprefix(SUB_ACCOUNT)
        if self.sub_account is None or not (digits.isascii() and digits.isdigit()):
            return self.merchant_id or 0
        return int(digits[:18])


class SplitTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rule of a split."""

    receivers: Annotated[list[ReceiverTerms], api_field(RECEIVERS)]
    rest: Annotated[Party, api_field(REST)] = OWNER
    fees: Annotated[Party, api_field(FEES)] = OWNER
    refunds: Annotated[Literal["proportional", "owner"], api_field(REFUNDS)] = PROPORTIONAL
    disputes: Annotated[Party, api_field(DISPUTES)] = PROPORTIONAL
    hold: Annotated[Hold, api_field(HOLD)] = "none"


def check(terms: SplitTerms, owner_id: int) -> None:
    """Raises SplitInvalid with all fields that make the rule impossible for every payment."""
    errors = dict(_problems(terms, owner_id))
    if errors:
        raise SplitInvalid(errors=errors)


def _problems(terms: SplitTerms, owner_id: int) -> Iterator[tuple[str, str]]:
    if not 1 <= len(terms.receivers) <= RECEIVERS_MAX:
        yield "receivers", f"Expected 1 to {RECEIVERS_MAX} receivers."
    count = Counter(each.number for each in terms.receivers)
    for place, each in enumerate(terms.receivers):
        problem = _problem(each, is_rest=each.name == str(terms.rest))
        if each.number == owner_id:
            problem = "The owner is not a receiver: choose the owner for the rest."
        elif count[each.number] > 1:
            problem = "This receiver is in the list twice."
        if problem:
            yield f"receivers.{place}", problem
    if sum(each.percent or 0 for each in terms.receivers) > 100:
        yield "receivers", "The percentages are more than 100 in all."
    names = {OWNER, *(each.name for each in terms.receivers)}
    for field, further in (("rest", ()), ("fees", (PROPORTIONAL,)), ("disputes", (PROPORTIONAL,))):
        if str(getattr(terms, field)) not in names.union(further):
            yield field, f"Expected {', '.join((OWNER, *further))} or a receiver of the split."


def _problem(terms: ReceiverTerms, *, is_rest: bool) -> str | None:
    percent, fixed, minimum = terms.percent, terms.fixed, terms.minimum
    checks = {
        "Expected either merchant_id or sub_account.": (
            (terms.merchant_id is None) == (terms.sub_account is None)
        ),
        "The receiver of the rest has no part of its own.": (
            is_rest and (percent, fixed, minimum) != (None, None, None)
        ),
        "Expected either percent or fixed.": not is_rest and (percent is None) == (fixed is None),
        f"Expected a percentage up to 100 with at most {PERCENT_DECIMALS} decimals.": (
            percent is not None and not _is_percentage(percent)
        ),
        "Expected a fixed amount above zero, without a minimum.": (
            fixed is not None and (fixed <= 0 or minimum is not None)
        ),
        "Expected a minimum that is not below zero.": minimum is not None and minimum < 0,
    }
    return next((text for text, is_broken in checks.items() if is_broken), None)


def _is_percentage(percent: Decimal) -> bool:
    return 0 < percent <= 100 and percent == round(percent, PERCENT_DECIMALS)


def divide(terms: SplitTerms, amount: Money, remaining: Money) -> dict[str, int]:
    """Divides what remains of an amount after its commission and taxes, in minor units.

    Each part is rounded down. Whoever gets the rest also gets what the rounding leaves.
    """
    costs, rest = amount.minor - remaining.minor, str(terms.rest)
    parts = {each.name: _part_minor(each, amount) for each in terms.receivers}
    if terms.fees == PROPORTIONAL:
        scaled = remaining.minor, amount.minor
        parts = {name: minor * scaled[0] // scaled[1] for name, minor in parts.items()}
    elif terms.fees != OWNER:
        parts[str(terms.fees)] -= costs
    elif costs and rest != OWNER:
        raise SplitInvalid.at("fees", "The owner has no share that could bear the commission.")
    others = sum(minor for name, minor in parts.items() if name != rest)
    shares = {**parts, OWNER: 0, rest: remaining.minor - others}
    if min(shares.values()) < 0:
        text = f"The shares are larger than what remains of this payment: {remaining}."
        raise PartsAboveAmount.at("receivers", text)
    return shares


def _part_minor(terms: ReceiverTerms, amount: Money) -> int:
    try:
        if terms.fixed is not None:
            return Money.of(terms.fixed, amount.currency).minor
        least = Money.of(terms.minimum or 0, amount.currency).minor
    except MoneyError as error:
        raise SplitInvalid.at("receivers", f"{terms.name}: {error}") from None
    return max(least, int(amount.minor * (terms.percent or Decimal(0)) / 100))
