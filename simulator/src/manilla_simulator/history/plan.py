"""The history as a list of stories, oldest first: the same list for the same end."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from random import Random

import msgspec

from manilla.kit.clock import LAGOS
from manilla.kit.environment import Environment
from manilla.ledger.daily import DAYS
from manilla.methods.method import Flow
from manilla_simulator.history.businesses import (
    BANKS,
    BUSINESSES,
    CUSTOMERS,
    HAULIER,
    SCHOOL,
    SHOP,
    Business,
)

# The newest story is older than a payment's link is valid. So nothing that is moved into the past
# is still in the future there.
QUIET = timedelta(hours=1)
PAUSE = timedelta(seconds=20)
SEED = 20
# Account numbers with which the simulator forces an outcome.
FAILS, CANNOT_BE_RESOLVED = "0000000001", "0000000002"


class Ending(StrEnum):
    """How a payment ends."""

    PAID = "paid"
    DECLINED = "declined"
    CANCELED = "canceled"
    EXPIRED = "expired"
    UNDERPAID = "underpaid"


ENDINGS = (Ending.PAID,) * 44 + (Ending.DECLINED,) * 3 + (Ending.CANCELED,) * 2 + (Ending.EXPIRED,)


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens to a merchant."""

    at: datetime
    business: Business
    reference: str  # of the transaction or the file that it is about
    minutes: float = 2.0  # how long it takes

    @property
    def ends(self) -> datetime:
        return self.at + timedelta(minutes=self.minutes)


class PaymentStory(Story, frozen=True, kw_only=True):
    environment: Environment
    amount: Decimal
    article: str
    customer: str
    flow: Flow
    ending: Ending
    method: str | None = None  # None: any method of the flow
    is_heard: bool = True  # whether the merchant's server accepts notifications


class PayoutStory(Story, frozen=True, kw_only=True):
    environment: Environment
    amount: Decimal
    bank: str
    account: str
    text: str
    is_manual: bool = False


class RefundStory(Story, frozen=True, kw_only=True):
    """`reference` is that of the payment."""

    reason: str


class ReversalStory(Story, frozen=True, kw_only=True):
    """The bank returns a payout that was completed. `reference` is that of the payout."""


class ResolutionStory(Story, frozen=True, kw_only=True):
    """An administrator resolves the case of a payment. `reference` is that of the payment."""

    note: str


class BulkStory(Story, frozen=True, kw_only=True):
    """`reference` is the file's name."""

    rows: Sequence[tuple[str, str, str, str]]  # amount, bank, account number, name


CREATING = (PaymentStory, PayoutStory, BulkStory)  # stories that create what they are about


def stories(until: datetime, share: float = 1.0) -> list[Story]:
    """Returns the stories of the 30 days that the charts show, one after the other.

    `share`: how much of the ordinary business there is.
    """
    last = until.astimezone(LAGOS).date()
    days = [last - timedelta(days=ago) for ago in range(DAYS - 1, -1, -1)]
    random = Random(SEED)  # noqa: S311
    found = [
        story
        for business in BUSINESSES
        for story in _of_business(random, business, days)
        if random.random() < share
    ]
    return _one_by_one([*found, *_special(days)], until - QUIET)


def _one_by_one(found: list[Story], limit: datetime) -> list[Story]:
    """Delays stories that overlap, so that the order of the postings is that of their times."""
    ordered: list[Story] = []
    free = datetime.min.replace(tzinfo=limit.tzinfo)
    for each in sorted(found, key=lambda story: (story.at, story.reference)):
        story = msgspec.structs.replace(each, at=max(each.at, free))
        if story.ends > limit:
            break
        free = story.ends + PAUSE
        ordered.append(story)
    return ordered


def _of_business(random: Random, business: Business, days: Sequence[date]) -> Iterator[Story]:
    number = 1000
    for place, day in enumerate(days):
        share = business.by_weekday[day.weekday()] * random.uniform(0.75, 1.25)
        for environment, a_day in (
            (Environment.PRODUCTION, business.payments_a_day),
            (Environment.SANDBOX, business.sandbox_payments_a_day),
        ):
            for _ in range(round(a_day * share)):
                number += random.randint(1, 4)
                yield _payment(random, business, day, environment, number)
        # The first days only earn the money that later payouts need.
        if place >= 4 and business.by_weekday[day.weekday()]:
            for _ in range(int(business.payouts_a_day + random.random())):
                number += random.randint(1, 4)
                yield _payout(random, business, day, number)
    if business.sandbox_payments_a_day:
        for place in range(6, len(days), 4):
            story = _payout(random, business, days[place], 9000 + place)
            yield msgspec.structs.replace(story, environment=Environment.SANDBOX)


def _payment(
    random: Random, business: Business, day: date, environment: Environment, number: int
) -> PaymentStory:
    article = random.choice(list(business.articles))
    quantity = random.choice(business.quantities)
    return PaymentStory(
        at=_moment(random, business, day),
        business=business,
        reference=f"{business.prefix}-{number}",
        minutes=round(random.uniform(0.6, 4.0), 2),
        environment=environment,
        amount=quantity * Decimal(business.articles[article]),
        article=article if quantity == 1 else f"{article} ({quantity} pieces)",
        customer=random.choice(CUSTOMERS),
        flow=random.choice(business.flows),
        ending=random.choice(ENDINGS),
    )


def _payout(random: Random, business: Business, day: date, number: int) -> PayoutStory:
    least, most = business.payout_amounts
    return PayoutStory(
        at=_moment(random, business, day),
        business=business,
        reference=f"{business.prefix}-OUT-{number}",
        minutes=round(random.uniform(0.4, 2.0), 2),
        environment=Environment.PRODUCTION,
        amount=Decimal(random.randrange(least, most, 500)),
        bank=random.choice(BANKS),
        account=FAILS if random.random() < 0.06 else f"{random.randrange(10**9, 9 * 10**9):010d}",
        text=f"{business.payout_text} {number}",
    )


def _moment(random: Random, business: Business, day: date) -> datetime:
    first, last = business.hours
    hour = random.triangular(first, last + 1, business.busiest_hour)
    seconds = random.randrange(60) + 60 * int(hour * 60)
    return datetime.combine(day, time(), LAGOS) + timedelta(seconds=seconds)


def _special(days: Sequence[date]) -> Iterator[Story]:
    """Returns what happens rarely, so that every queue and list of the console has an example."""
    # These earn what the payouts below need.
    yield _sale(SCHOOL, _hour(days[1], 9), "FEES-700")
    yield _sale(HAULIER, _hour(days[1], 10), "WAYBILL-700")
    yield from _underpayments(days)
    yield from _refunds(days)
    yield from _unheard(days)
    yield from _returned_payouts(days)
    yield PayoutStory(
        at=_hour(days[-2], 15),
        business=SCHOOL,
        reference="FEES-OUT-740",
        environment=Environment.PRODUCTION,
        bank=BANKS[0],
        amount=Decimal("85000.00"),
        account="0123456789",
        text="Repair of the school bus",
        is_manual=True,
    )
    yield BulkStory(
        at=_hour(days[-4], 16),
        business=HAULIER,
        reference="drivers-week.csv",
        minutes=6,
        rows=(
            ("45000.00", "058", "2034567891", "Musa Garba"),
            ("45000.00", "044", "2034567892", "Emeka Obi"),
            ("38500.00", "011", "2034567893", "Sani Bello"),
            ("38500.00", "057", CANNOT_BE_RESOLVED, "Tunde Ajayi"),
            ("41000.00", "033", "20345678", "Kunle Ade"),
            ("52000.00", "070", "2034567896", "Ibrahim Lawal"),
        ),
    )


def _sale(business: Business, at: datetime, reference: str, **others: object) -> PaymentStory:
    article, price = next(iter(business.articles.items()))
    values = {
        "environment": Environment.PRODUCTION,
        "amount": Decimal(price),
        "article": article,
        "customer": CUSTOMERS[len(reference) % len(CUSTOMERS)],
        "flow": Flow.HOSTED,
        "ending": Ending.PAID,
        **others,
    }
    return PaymentStory(at=at, business=business, reference=reference, **values)  # type: ignore[arg-type]


def _underpayments(days: Sequence[date]) -> Iterator[Story]:
    yield _sale(SCHOOL, _hour(days[-9], 10), "FEES-701", ending=Ending.UNDERPAID)
    yield ResolutionStory(
        at=_hour(days[-8], 9),
        business=SCHOOL,
        reference="FEES-701",
        note="The parent asked to credit the part that was paid.",
    )
    yield _sale(HAULIER, _hour(days[-2], 11), "WAYBILL-702", ending=Ending.UNDERPAID)


def _refunds(days: Sequence[date]) -> Iterator[Story]:
    reasons = {
        "ORDER-711": (18, "providera-ngn", "The chair arrived with a broken leg."),
        "ORDER-712": (8, "providera-ngn", "Ordered twice by mistake."),
        # Provider B has no refunds, so an administrator must pay it.
        "ORDER-713": (3, "providerb-ngn", "The customer canceled the order."),
    }
    for reference, (ago, method, reason) in reasons.items():
        yield _sale(SHOP, _hour(days[-ago], 12), reference, method=method)
        at = _hour(days[-ago + 1], 10)
        yield RefundStory(at=at, business=SHOP, reference=reference, reason=reason)


def _unheard(days: Sequence[date]) -> Iterator[Story]:
    for number, ago in enumerate((6, 3, 2)):
        yield _sale(SHOP, _hour(days[-ago], 14), f"ORDER-72{number}", is_heard=False)


def _returned_payouts(days: Sequence[date]) -> Iterator[Story]:
    for number, ago in enumerate((15, 5)):
        reference = f"WAYBILL-OUT-73{number}"
        yield PayoutStory(
            at=_hour(days[-ago], 13),
            business=HAULIER,
            reference=reference,
            environment=Environment.PRODUCTION,
            amount=Decimal("36000.00"),
            bank=BANKS[number],
            account=f"301234567{number}",
            text="Driver",
        )
        yield ReversalStory(at=_hour(days[-ago + 1], 11), business=HAULIER, reference=reference)


def _hour(day: date, hour: int) -> datetime:
    return datetime.combine(day, time(hour), LAGOS)
