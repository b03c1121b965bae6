"""What happened to a transaction, from all that is known of it, in the order of time."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from manilla.kit.display import money
from manilla.kit.money import DECIMALS, Money
from manilla.ledger.listing import EntryLine, PostingLine
from manilla.ledger.timeline import Step
from manilla.merchants.request_queries import Request
from manilla.notify.listing import Told
from manilla.payments.payment import Charge
from manilla.payments.story import PaymentStory
from manilla.payouts.story import PayoutStory
from manilla.providers.listing import Heard
from manilla.providers.port import Provider

GOOD = frozenset({"delivered", "paid", "completed", "success", "refund_completed"})
BAD = frozenset(
    {"failed", "rejected", "reversed", "refund_failed", "declined", "canceled", "charge_declined"}
)
POSTINGS = {
    "payment": "The money was credited",
    "commission": "The commission was booked",
    "refund": "The refund was debited",
    "refund_paid": "The refund was paid",
    "refund_returned": "The refund came back to the wallet",
    "payout": "The wallet was debited",
    "payout_delivered": "The money left for the bank",
    "payout_refund": "The wallet has its money back",
}
# At one moment, a cause comes before what it brings about.
REQUEST, CHARGE, STEP, WEBHOOK, POSTING, NOTIFICATION, ATTEMPT = range(7)


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    place: int  # among those of the same moment
    source: str  # who knows of it
    title: str
    detail: str = ""
    tone: str = ""  # green, yellow or red
    notification_id: str | None = None


def of_payment(story: PaymentStory, *, all_accounts: bool = False) -> list[Happening]:
    """`all_accounts`: the platform's own too, which are no merchant's to see."""
    charges = (_charge(each) for each in story.charges)
    return _in_order(*charges, *_common(story, all_accounts=all_accounts))


def of_payout(story: PayoutStory, *, all_accounts: bool = False) -> list[Happening]:
    return _in_order(*_common(story, all_accounts=all_accounts))


def of_webhooks(heard: Sequence[Heard]) -> list[Happening]:
    """Where no transaction of ours is known that they are about."""
    return _in_order(*(_heard(each) for each in heard))


def _common(story: PaymentStory | PayoutStory, *, all_accounts: bool) -> Iterable[Happening]:
    yield from (_request(each) for each in story.requests)
    yield from (_heard(each) for each in story.webhooks)
    yield from (_step(each) for each in story.steps)
    for posting in story.postings:
        shown = [each for each in posting.entries if all_accounts or each.account == "wallet"]
        if shown:
            yield _posting(posting, shown)
    for told in story.notifications:
        yield from _told(told)


def _in_order(*happenings: Happening) -> list[Happening]:
    return sorted(happenings, key=lambda each: (each.at, each.place))


def _request(request: Request) -> Happening:
    refused = f", {request.error_code}: {request.error}" if request.error_code else ""
    return Happening(
        at=request.at,
        place=REQUEST,
        source="API",
        title=f"{request.method} {request.path}",
        detail=f"Answered {request.status}{refused}. Request {request.request_id}.",
        tone="red" if request.status >= 400 else "",
    )


def _charge(charge: Charge) -> Happening:
    detail = f"{charge.method_code}, reference {charge.reference}, {money(charge.amount)}."
    return Happening(
        at=charge.created_at,
        place=CHARGE,
        source="Checkout",
        title=f"The customer chose how to pay; this try is {charge.status}",
        detail=f"{detail} {charge.reason or ''}".strip(),
    )


def _heard(heard: Heard) -> Happening:
    claims = []
    if heard.claimed_status is not None:
        claims.append(heard.claimed_status)
    if heard.claimed_amount is not None and heard.claimed_currency in DECIMALS:
        claims.append(f"{heard.claimed_amount:,f} {heard.claimed_currency}")
    return Happening(
        at=heard.received_at,
        place=WEBHOOK,
        source="Provider",
        title=f"{Provider(heard.provider).shown} sent a signed webhook",
        detail=f"{heard.kind}, reference {heard.reference}. {', '.join(claims)}".strip(),
    )


def _step(step: Step) -> Happening:
    moved = "" if step.from_status == step.to_status else f": {step.from_status} → {step.to_status}"
    tone = "green" if step.event in GOOD else "red" if step.event in BAD else ""
    event = step.event.replace("_", " ")
    return Happening(
        at=step.at,
        place=STEP,
        source="Status",
        title=f"{_sentence(event)}{moved}",
        detail=_sentence(step.detail or ""),
        tone=tone,
    )


def _posting(posting: PostingLine, entries: Sequence[EntryLine]) -> Happening:
    lines = []
    for entry in entries:
        amount = Money(posting.currency, entry.amount_minor)
        line = f"{entry.account.replace('_', ' ')} {'+' if amount.minor > 0 else ''}{money(amount)}"
        if entry.balance_minor is not None:
            line += f", balance {money(Money(posting.currency, entry.balance_minor))}"
        lines.append(line)
    return Happening(
        at=posting.posted_at,
        place=POSTING,
        source="Ledger",
        title=POSTINGS.get(posting.kind, posting.kind.replace("_", " ").capitalize()),
        detail=_sentence(f"{' · '.join(lines)}. Posting {posting.id}."),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _told(told: Told) -> Iterable[Happening]:
    notification = told.notification
    yield Happening(
        at=notification.created_at,
        place=NOTIFICATION,
        source="IPN",
        title=f"A notification was written: {notification.event} {notification.status}",
        detail=f"To {notification.url}. It is {notification.state}.",
        notification_id=notification.id,
    )
    for attempt in told.attempts:
        is_good = attempt.error is None
        answer = f"was answered {attempt.status}" if attempt.status else "failed"
        yield Happening(
            at=attempt.at,
            place=ATTEMPT,
            source="IPN",
            title=f"Attempt {attempt.number} {answer}",
            detail=f"After {attempt.milliseconds} ms. {attempt.error or ''}".rstrip(),
            tone="green" if is_good else "red",
            notification_id=notification.id,
        )
