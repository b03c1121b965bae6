"""Plans the demo history's stories, oldest first. The plan depends only on the end time."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from random import Random

import msgspec

from manilla.beneficiaries import beneficiary
from manilla.kit.clock import LAGOS
from manilla.kit.environment import Environment
from manilla.ledger.daily import DAYS
from manilla.methods.method import Flow
from manilla_simulator import names
from manilla_simulator.history.businesses import (
    BANKS,
    BUSINESSES,
    CUSTOMERS,
    HAULIER,
    SCHOOL,
    SHOP,
    Business,
)
from manilla_simulator.history.story import (
    CANNOT_BE_RESOLVED,
    ENDINGS,
    FAILS,
    BulkStory,
    Ending,
    PaymentStory,
    PayoutStory,
    RefundStory,
    ResolutionStory,
    ReversalStory,
    SettlementStory,
    Story,
)

# The newest story is older than a payment link's lifetime, so no moved timestamp is in the future.
QUIET = timedelta(hours=1)
# Merchants make no payouts on the first days, until payments have filled their wallets.
EARNING_DAYS = 4
PAUSE = timedelta(seconds=20)
SEED = 20


def stories(until: datetime, share: float = 1.0) -> list[Story]:
    """Returns the stories of the 30 days that the charts show, oldest first.

    `share` is the proportion of ordinary transactions to include.
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
    """Delays overlapping stories, so that the ledger's postings are in chronological order."""
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
    """Yields a merchant's ordinary transactions as stories, with ascending references."""
    found = [
        story
        for place, day in enumerate(days)
        for story in _of_day(random, business, day, is_paying_out=place >= EARNING_DAYS)
    ]
    number = 1000
    for story in sorted(found, key=lambda each: each.at):
        number += random.randint(1, 4)
        yield msgspec.structs.replace(story, reference=f"{story.reference}-{number}")


def _of_day(
    random: Random, business: Business, day: date, *, is_paying_out: bool
) -> Iterator[Story]:
    share = business.by_weekday[day.weekday()] * random.uniform(0.75, 1.25)
    environments = {
        Environment.PRODUCTION: (business.payments_a_day, business.payouts_a_day),
        Environment.SANDBOX: (business.sandbox_payments_a_day, business.sandbox_payouts_a_day),
    }
    for environment, (payments_a_day, payouts_a_day) in environments.items():
        for _ in range(round(payments_a_day * share)):
            yield _payment(random, business, day, environment)
        if is_paying_out and share:
            for _ in range(int(payouts_a_day + random.random())):
                yield _payout(random, business, day, environment)


def _payment(
    random: Random, business: Business, day: date, environment: Environment
) -> PaymentStory:
    article = random.choice(list(business.articles))
    quantity = random.choice(business.quantities)
    return PaymentStory(
        at=_moment(random, business, day),
        business=business,
        reference=business.prefix,
        minutes=round(random.uniform(0.6, 4.0), 2),
        environment=environment,
        amount=quantity * Decimal(business.articles[article]),
        article=article if quantity == 1 else f"{article} ({quantity} pieces)",
        customer=random.choice(CUSTOMERS),
        flow=random.choice(business.flows),
        ending=random.choice(ENDINGS),
    )


def _payout(random: Random, business: Business, day: date, environment: Environment) -> PayoutStory:
    least, most = business.payout_amounts
    bank = random.choice(BANKS)
    return PayoutStory(
        at=_moment(random, business, day),
        business=business,
        reference=f"{business.prefix}-OUT",
        minutes=round(random.uniform(0.4, 2.0), 2),
        environment=environment,
        amount=Decimal(random.randrange(least, most, 500)),
        bank=bank,
        account=FAILS if random.random() < 0.06 else _account(random.randrange(10**8), bank),
        text=business.payout_text,
    )


def _account(number: int, bank: str) -> str:
    """Returns an account number whose check digit is valid for the bank."""
    texts = (f"2{number:08d}{digit}" for digit in range(10))
    return next(text for text in texts if beneficiary.check_digit_fits(bank, text))


def _moment(random: Random, business: Business, day: date) -> datetime:
    first, last = business.hours
    hour = random.triangular(first, last + 1, business.busiest_hour)
    seconds = random.randrange(60) + 60 * int(hour * 60)
    return datetime.combine(day, time(), LAGOS) + timedelta(seconds=seconds)


def _special(days: Sequence[date]) -> Iterator[Story]:
    """Yields rare events as stories, so that every queue and list in the console has an example."""
    # These payments fund the payouts below.
    fees = {"amount": Decimal("740000.00"), "article": "School fees, four children"}
    yield _sale(SCHOOL, _hour(days[1], 9), "FEES-700", **fees)
    trips = {"amount": Decimal("640000.00"), "article": "Haulage, two containers"}
    yield _sale(HAULIER, _hour(days[1], 10), "WAYBILL-700", **trips)
    lobby = {"amount": Decimal("985000.00"), "article": "Furniture for a hotel lobby"}
    yield _sale(SHOP, _hour(days[1], 11), "ORDER-700", **lobby)
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
        account=_account(1, BANKS[0]),
        text="Repair of the school bus",
        is_manual=True,
    )
    yield _file_of_payouts(days[-4])
    for number, ago in enumerate((13, 6), start=1):
        yield SettlementStory(
            at=_hour(days[-ago], 17),
            business=SHOP,
            reference=f"SETTLEMENT-{number}",
            number=number,
            reserve=Decimal("400000.00"),
        )


def _file_of_payouts(day: date) -> BulkStory:
    amounts = ("45000.00", "32500.00", "38500.00", "18500.00", "41000.00", "52000.00")
    accounts = [_account(34_567_890 + place, bank) for place, bank in enumerate(BANKS)]
    accounts[3], accounts[4] = CANNOT_BE_RESOLVED, "20345678"
    return BulkStory(
        at=_hour(day, 16),
        business=SHOP,
        reference="craftspeople.csv",
        minutes=6,
        rows=[
            (amount, bank, account, names.holder_of(account).title())
            for amount, bank, account in zip(amounts, BANKS, accounts, strict=True)
        ],
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
    yield _sale(SHOP, _hour(days[-2], 11), "ORDER-702", ending=Ending.UNDERPAID)


def _refunds(days: Sequence[date]) -> Iterator[Story]:
    reasons = {
        "ORDER-711": (18, "providera-ngn", "The chair arrived with a broken leg."),
        "ORDER-712": (8, "providera-ngn", "Ordered twice by mistake."),
        # Provider B has no refund API, so an administrator must pay this refund manually.
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
            account=_account(number, BANKS[number]),
            text="Driver",
        )
        yield ReversalStory(at=_hour(days[-ago + 1], 11), business=HAULIER, reference=reference)


def _hour(day: date, hour: int) -> datetime:
    return datetime.combine(day, time(hour), LAGOS)
