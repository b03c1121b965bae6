"""Builds a transaction's timeline from all records about the transaction."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from manilla.kit.display import money, with_symbols
from manilla.kit.money import DECIMALS, Money, claimed_text
from manilla.ledger.listing import EntryLine, PostingLine
from manilla.ledger.timeline import TimelineEvent
from manilla.lookup.story import PaymentStory, PayoutStory
from manilla.merchants.requests.stored import Request
from manilla.notify.listing import NotificationWithAttempts
from manilla.notify.queries import Notification
from manilla.payments.charges import CUSTOMER_SENT
from manilla.payments.payment import Charge
from manilla.posting_kinds import kind_named
from manilla.providers.kinds import title_of
from manilla.providers.listing import ReceivedWebhook
from manilla.web import display
from manilla.web import plain_events as plain

GOOD = frozenset(
    {"delivered", "paid", "completed", "success", "refund_completed", "return_completed"}
    | {"dispute_won"}
)
BAD = frozenset(
    {"failed", "rejected", "reversed", "refund_failed", "return_failed", "declined", "canceled"}
    | {"charge_declined", "dispute_lost", "dispute_deadline_missed"}
)
WARNING = frozenset({"charge_not_created", "dispute_opened", "dispute_reopened"})
# Events with the same time are sorted in this order, so that a cause precedes its effect.
REQUEST, CHARGE, STEP, WEBHOOK, POSTING, NOTIFICATION, ATTEMPT = range(7)


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    place: int  # the sort order of events with the same time
    source: str  # the origin of the event, such as `Checkout`
    title: str
    detail: str = ""
    tone: str = ""  # the entry's color: green, yellow, red or none
    is_technical: bool = False  # whether the entry is about a request or notification
    notification_id: str | None = None


def of_payment(
    story: PaymentStory, method_names: Mapping[str, str], *, is_internal: bool = False
) -> list[TimelineEntry]:
    """Builds a payment's timeline. `method_names` maps codes of deposit methods to their names.

    If `is_internal`, it includes details that merchants must not see: the platform's ledger
    accounts, names of provider accounts, and messages from providers.
    """
    charges = (
        _charge(each, method_names.get(each.method_code, each.method_code), is_internal=is_internal)
        for each in story.charges
    )
    return _in_order(*charges, *_common(story, is_internal=is_internal))


def of_payout(story: PayoutStory, *, is_internal: bool = False) -> list[TimelineEntry]:
    return _in_order(*_common(story, is_internal=is_internal))


def of_dispute(
    steps: Sequence[TimelineEvent], postings: Sequence[PostingLine], *, is_internal: bool = False
) -> list[TimelineEntry]:
    """Builds a dispute's timeline. Its page shows the dispute's id, so its events do not."""
    steps = [
        msgspec.structs.replace(
            each, facts={key: text for key, text in each.facts.items() if key != "dispute"}
        )
        for each in steps
    ]
    return _in_order(
        *(_step(each, is_internal=is_internal) for each in steps),
        *_postings(postings, is_internal=is_internal),
    )


def of_webhooks(heard: Sequence[ReceivedWebhook]) -> list[TimelineEntry]:
    """Builds the timeline of webhooks that belong to no transaction of the platform."""
    return _in_order(*(_heard(each) for each in heard))


def _common(story: PaymentStory | PayoutStory, *, is_internal: bool) -> Iterable[TimelineEntry]:
    yield from (_request(each) for each in story.requests)
    yield from (_heard(each) if is_internal else _heard_plainly(each) for each in story.webhooks)
    yield from (_step(each, is_internal=is_internal) for each in story.steps)
    yield from _postings(story.postings, is_internal=is_internal)
    for sent in story.notifications:
        yield from _notification(sent)


def _postings(postings: Sequence[PostingLine], *, is_internal: bool) -> Iterable[TimelineEntry]:
    for posting in postings:
        shown = [each for each in posting.entries if is_internal or each.account == "wallet"]
        if shown:
            yield _posting(posting, shown, is_internal=is_internal)


def _in_order(*entries: TimelineEntry) -> list[TimelineEntry]:
    return sorted(entries, key=lambda each: (each.at, each.place))


def _request(request: Request) -> TimelineEntry:
    refused = f", {request.error_code}: {request.error}" if request.error_code else ""
    return TimelineEntry(
        at=request.at,
        place=REQUEST,
        source="API",
        title=f"{request.method} {request.path}",
        detail=f"Response {request.status}{refused}. Request {request.request_id}.",
        tone="red" if request.status >= 400 else "",
        is_technical=True,
    )


def _charge(charge: Charge, method: str, *, is_internal: bool) -> TimelineEntry:
    """Returns the entry for the charge's creation. The charge's result is a separate entry."""
    words: dict[str, str] = {"suspense": "held for review", "part": "paid in part"}
    status = words.get(charge.status, charge.status)
    if charge.is_uncertain:
        status = "not confirmed by the provider"
    account = f", account {charge.account_number}" if charge.account_number else ""
    detail = f"{method}{account}, reference {charge.reference}, {money(charge.amount)}."
    reason = charge.reason if is_internal else None
    return TimelineEntry(
        at=charge.created_at,
        place=CHARGE,
        source="Checkout",
        title="Charge created",
        detail=f"{detail} Now {status}. {with_symbols(reason or '')}".strip(),
    )


def _heard(heard: ReceivedWebhook) -> TimelineEntry:
    return TimelineEntry(
        at=heard.received_at,
        place=WEBHOOK,
        source="Provider",
        title=f"{title_of(heard.provider)} sent a signed webhook",
        detail=f"{heard.kind}, reference {heard.reference}. {_claims(heard)}".strip(),
        is_technical=True,
    )


def _heard_plainly(heard: ReceivedWebhook) -> TimelineEntry:
    return TimelineEntry(
        at=heard.received_at,
        place=WEBHOOK,
        source="Provider",
        title="The provider reported a status",
        detail=_sentence(_claims(heard)),
        is_technical=True,
    )


def _claims(heard: ReceivedWebhook) -> str:
    claims = [] if heard.claimed_status is None else [heard.claimed_status]
    if heard.claimed_amount is not None and heard.claimed_currency in DECIMALS:
        claims.append(claimed_text(heard.claimed_amount, heard.claimed_currency))
    return ", ".join(claims)


def _step(step: TimelineEvent, *, is_internal: bool) -> TimelineEntry:
    moved = "" if step.from_status == step.to_status else f": {step.from_status} → {step.to_status}"
    tones = {"green": GOOD, "red": BAD, "yellow": WARNING}
    tone = next((tone for tone, events in tones.items() if step.event in events), "")
    is_raw = is_internal and step.event != CUSTOMER_SENT
    title = _sentence(step.event.replace("_", " ")) if is_raw else plain.title(step.event)
    detail = step.detail or "" if is_internal else plain.detail(step)
    return TimelineEntry(
        at=step.at,
        place=STEP,
        source="Status",
        title=f"{title}{moved}",
        detail=_sentence(with_symbols(detail)),
        tone=tone,
    )


def _posting(
    posting: PostingLine, entries: Sequence[EntryLine], *, is_internal: bool
) -> TimelineEntry:
    lines = []
    for entry in entries:
        amount = Money(posting.currency, entry.amount_minor)
        line = f"{entry.account.replace('_', ' ')} {'+' if amount.minor > 0 else ''}{money(amount)}"
        if entry.balance_minor is not None:
            line += f", balance {money(Money(posting.currency, entry.balance_minor))}"
        lines.append(line)
    number = f" Posting {posting.id}." if is_internal else ""
    kind = kind_named(posting.kind)
    return TimelineEntry(
        at=posting.posted_at,
        place=POSTING,
        source="Ledger",
        title=kind.heading if kind else display.title(posting.kind),
        detail=_sentence(f"{' · '.join(lines)}.{number}"),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _destination(notification: Notification) -> str:
    if not notification.url:
        return "Not sent to an IPN URL."
    return f"To {notification.url}. Delivery: {notification.state}."


def _notification(sent: NotificationWithAttempts) -> Iterable[TimelineEntry]:
    notification = sent.notification
    yield TimelineEntry(
        at=notification.created_at,
        place=NOTIFICATION,
        source="IPN",
        title=f"Notification created: {notification.event} {notification.status}",
        detail=_destination(notification),
        notification_id=notification.id,
        is_technical=True,
    )
    for attempt in sent.attempts:
        is_good = attempt.error is None
        answer = f"returned {attempt.status}" if attempt.status else "failed"
        yield TimelineEntry(
            at=attempt.at,
            place=ATTEMPT,
            source="IPN",
            title=f"Attempt {attempt.number} {answer}",
            detail=_sentence(f"{attempt.error or 'delivered'}, after {attempt.milliseconds} ms."),
            tone="green" if is_good else "red",
            notification_id=notification.id,
            is_technical=True,
        )
