"""Where a transaction's money is, who reported that and when, and what happens next.

Pages show these sentences at the top of each payment, payout and refund. Stored facts choose the
sentences: statuses, times, and the provider's last answer. No text is parsed.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.database.connections import Database
from manilla.kit.jobs import JobProgress
from manilla.kit.money import Money
from manilla.ledger.timeline import TimelineEvent
from manilla.lookup.story import PaymentStory, PayoutStory
from manilla.lookup.waiting import FOR_MERCHANTS, WaitingReason
from manilla.merchants.outgoing import OutgoingHold
from manilla.payments.charges import CUSTOMER_SENT
from manilla.payments.payment import Charge, Payment, PaymentErrorCode, PaymentStatus
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.providers.status_query import NO_ANSWER
from manilla.refunds.refund import Refund, RefundStatus

Sentence = tuple[str | datetime | Money, ...]


class Tone(StrEnum):
    """How far the money is. The value is a color of the style sheet."""

    ARRIVED = "green"
    UNDERWAY = "yellow"
    STOPPED = "orange"  # a person must decide
    ENDED = "secondary"  # nothing was paid, or the money is back


class Help(StrEnum):
    """The one action that helps now."""

    QUERY = "query"  # query the status at the provider now
    DECIDE = "decide"  # for administrators: pay manually, or decide on the transfer
    CASE = "case"  # for administrators: resolve the open case


class StoryReader(msgspec.Struct, frozen=True):
    """Who reads the sentences."""

    titles: Mapping[str, str]  # maps provider accounts to the titles that the readers may see
    is_internal: bool

    @property
    def wallet(self) -> str:
        return "the merchant's wallet" if self.is_internal else "your wallet"

    def name(self, provider: str | None) -> str:
        return self.titles.get(provider or "", "The provider")

    def hold(self, hold: OutgoingHold) -> str:
        return hold.text if self.is_internal else FOR_MERCHANTS.get(hold, hold.text)

    def only_internal(self, help: Help) -> Help | None:
        return help if self.is_internal else None


class Whereabouts(msgspec.Struct, frozen=True):
    tone: Tone
    sentences: tuple[Sentence, ...]
    help: Help | None = None

    @property
    def version(self) -> str:
        """A key that changes with the sentences, except with the time of the next query."""
        shown = [list(map(str, each)) for each in self.sentences if each[0] != NEXT_QUERY]
        return hashlib.sha256(repr(shown).encode()).hexdigest()[:16]


# What a provider's answer means. The key is a status of `providers/port.py`.
SAID = {
    "pending": "still in progress",
    "not_found": "not known",
    "delivered": "delivered",
    "paid": "paid",
    "failed": "failed",
    "reversed": "returned by the bank",
    "returned": "returned",
    "expired": "expired",
}
NEXT_QUERY = "The next status query is due at "
NOT_PAID = {
    PaymentErrorCode.EXPIRED_SESSION: "The customer did not pay before the link expired at ",
    PaymentErrorCode.PAYMENT_CANCELED: "The payment was canceled at ",
    PaymentErrorCode.PAYMENT_DECLINED: "The payment was declined at ",
    PaymentErrorCode.INSUFFICIENT_FUNDS: "The payment was declined for lack of funds at ",
}


async def of_payout(
    db: Database, reader: StoryReader, story: PayoutStory, waiting: WaitingReason | None
) -> Whereabouts:
    payout = story.payout
    if not payout.is_open:
        return _ended_payout(reader, payout, _ended_at(story.steps, payout))
    kind = JobKind.SANDBOX_PAYOUT if payout.is_sandbox else JobKind.TRANSFER
    progress = await jobs.progress(db, payout.merchant_id, kind, [payout.trx_id])
    return _open_payout(reader, payout, waiting, progress.get(payout.trx_id))


def _ended_payout(reader: StoryReader, payout: Payout, at: datetime) -> Whereabouts:
    name, back = reader.name(payout.provider), (payout.payable, f" is back in {reader.wallet}.")
    match payout.status:
        case PayoutStatus.COMPLETED:
            return Whereabouts(Tone.ARRIVED, (_delivery(name, payout, at),))
        case PayoutStatus.CANCELED:
            said: Sentence = ("The payout was canceled at ", at, ".")
        case _ if payout.is_sandbox:
            said = ("The sandbox failed this payout at ", at, ".")
        case _ if payout.is_reversed:
            said = (f"{name} reported at ", at, " that the bank returned the transfer.")
        case _:
            said = (f"{name} reported at ", at, " that the transfer failed.")
    return Whereabouts(Tone.ENDED, (said, back))


def _delivery(name: str, payout: Payout, at: datetime) -> Sentence:
    to = payout.account_name or "the beneficiary"
    if payout.is_manual:
        return ("An administrator paid ", payout.amount, f" to {to} at ", at, ".")
    if payout.is_sandbox:
        return ("The sandbox delivered ", payout.amount, f" to {to} at ", at, ".")
    return (f"{name} delivered ", payout.amount, f" to {to}. This was reported at ", at, ".")


def _open_payout(
    reader: StoryReader,
    payout: Payout,
    waiting: WaitingReason | None,
    progress: JobProgress | None,
) -> Whereabouts:
    if payout.is_manual:
        said: Sentence = (
            "Waiting since ",
            payout.created_at,
            " for an administrator, who pays it by bank transfer.",
        )
        return Whereabouts(Tone.UNDERWAY, (said,), reader.only_internal(Help.DECIDE))
    if payout.is_sandbox:
        return _in_sandbox("payout", progress)
    name = reader.name(payout.provider)
    sentences = _sent_payout(name, payout, progress) if payout.sent_at else ()
    if waiting is not None:
        text = waiting.for_administrators if reader.is_internal else waiting.for_merchants
        since: Sentence = () if waiting.hold else _since(waiting.down_since)
        sentences = (*sentences, (text, *since))
    elif payout.sent_at is None:
        sentences = ((f"Not sent yet. {name} gets it in a moment.",),)
    tone = Tone.STOPPED if progress and progress.parked_at else Tone.UNDERWAY
    return Whereabouts(tone, sentences, Help.QUERY if payout.sent_at else None)


def _since(at: datetime | None) -> Sentence:
    return () if at is None else (" Since ", at, ".")


def _sent_payout(name: str, payout: Payout, progress: JobProgress | None) -> tuple[Sentence, ...]:
    assert payout.sent_at is not None
    sent: Sentence = (f"Sent to {name} at ", payout.sent_at)
    if payout.accepted_at is None:
        said: Sentence = (*sent, f". {name} has not confirmed yet that it has the transfer.")
    else:
        said = (*sent, ", and accepted at ", payout.accepted_at, ".")
    return (said, *_queries(name, progress))


def _queries(name: str, progress: JobProgress | None) -> Iterator[Sentence]:
    """Yields what the provider answered to the last status query, and when the next one is due."""
    if progress is None:
        return
    if progress.result_at is not None:
        if progress.result == NO_ANSWER:
            yield (f"{name} gave no usable answer at ", progress.result_at, ".")
        else:
            status = SAID.get(progress.result or "", progress.result or "")
            yield (f"{name} says: {status}. Last queried at ", progress.result_at, ".")
    if progress.parked_at is not None:
        yield ("Status queries have stopped since ", progress.parked_at, " because of an error.")
    elif progress.due_at > datetime.now(UTC):
        yield (NEXT_QUERY, progress.due_at, ".")


def _in_sandbox(what: str, progress: JobProgress | None) -> Whereabouts:
    if progress is None:
        said: Sentence = (f"This sandbox {what} stays pending, as requested.",)
    else:
        said = (f"This sandbox {what} completes automatically at ", progress.due_at, ".")
    return Whereabouts(Tone.UNDERWAY, (said,))


async def of_payment(db: Database, reader: StoryReader, story: PaymentStory) -> Whereabouts:
    payment = story.payment
    kind = JobKind.SANDBOX_PAYMENT if payment.is_sandbox else JobKind.CHARGE
    subjects = [payment.trx_id, *(each.reference for each in story.charges)]
    progress = await jobs.progress(db, payment.merchant_id, kind, subjects)
    if any(each.outcome is None for each in story.held):
        return _held_payment(reader, story)
    match payment.status:
        case PaymentStatus.SUCCESS:
            return _paid(reader, story)
        case PaymentStatus.FAILED:
            return _unpaid(reader, story, progress)
    is_untouched = payment.is_sandbox and payment.received_minor is None
    if is_untouched and payment.trx_id in progress:
        return _in_sandbox("payment", progress[payment.trx_id])
    return _pending(reader, story, progress)


def _held_payment(reader: StoryReader, story: PaymentStory) -> Whereabouts:
    held = next(each for each in story.held if each.outcome is None)
    but: Sentence = ()
    if held.expected is None:
        but = (" in addition to the amount that was accepted",)
    elif held.is_wrong_amount:
        but = (", but ", held.expected, " was requested")
    return Whereabouts(
        Tone.STOPPED,
        (
            (held.received, " was received", *but, "."),
            (f"An administrator reviews the money, so it is not in {reader.wallet} yet.",),
        ),
        reader.only_internal(Help.CASE),
    )


def _paid(reader: StoryReader, story: PaymentStory) -> Whereabouts:
    who = "The sandbox" if story.payment.is_sandbox else _charged_by(reader, story.charge)
    at = story.paid_at or story.payment.updated_at
    sentences: list[Sentence] = [
        (f"{who} confirmed the payment at ", at, "."),
        (story.net, f" was credited to {reader.wallet}."),
    ]
    if story.shared.minor:
        sentences.append((story.shared, " was credited to the other receivers."))
    if story.refunding.minor:
        sentences.append((story.refunding, " is being refunded to the customer."))
    if story.refunded.minor:
        sentences.append((story.refunded, " was refunded to the customer."))
    return Whereabouts(Tone.ARRIVED, (*sentences, *_returns(story), *_disputes(reader, story)))


def _disputes(reader: StoryReader, story: PaymentStory) -> Iterator[Sentence]:
    """Yields what disputes withhold, and what they have taken."""
    currency = story.payment.currency
    withheld = Money(currency, sum(each.withheld_minor for each in story.disputes))
    taken = Money(currency, sum(each.taken_minor for each in story.disputes))
    if withheld.minor:
        yield (withheld, f" is withheld from {reader.wallet}, because the payment is disputed.")
    if taken.minor:
        yield (taken, " was returned to the customer after a dispute.")


def _charged_by(reader: StoryReader, charge: Charge | None) -> str:
    return reader.name(None if charge is None else charge.provider)


def _returns(story: PaymentStory) -> Iterator[Sentence]:
    """Yields what happens to money that the payment did not need."""
    wrong = story.wrong_amount
    if wrong is None:
        return
    if wrong.waiting.minor:
        yield (wrong.waiting, " is returned to the customer as soon as refunds are possible.")
    if wrong.returning.minor:
        yield (wrong.returning, " is being returned to the customer.")
    if wrong.returned.minor:
        yield (wrong.returned, " was returned to the customer.")
    if wrong.not_returned.minor:
        yield (wrong.not_returned, " could not be returned. An administrator decides.")


def _unpaid(
    reader: StoryReader, story: PaymentStory, progress: Mapping[str, JobProgress]
) -> Whereabouts:
    payment = story.payment
    code = payment.error_code or PaymentErrorCode.PAYMENT_DECLINED
    is_expired = code is PaymentErrorCode.EXPIRED_SESSION
    at = _ended_at(story.steps, payment)
    if is_expired:
        at = min(at, payment.expires_at)  # a late test transfer needs no expired link
    charge = _last_charge(story)
    sentences: tuple[Sentence, ...] = ((NOT_PAID[code], at, "."), *_returns(story))
    if (late := progress.get(payment.trx_id)) is not None:
        sentences = (*sentences, ("The test transfer arrives late, at ", late.due_at, "."))
    if charge is None:
        return Whereabouts(Tone.ENDED, sentences)
    sentences = (*sentences, *_attempt(reader, story, charge, progress.get(charge.reference)))
    return Whereabouts(Tone.ENDED, sentences, Help.QUERY)


def _pending(
    reader: StoryReader, story: PaymentStory, progress: Mapping[str, JobProgress]
) -> Whereabouts:
    payment, charge = story.payment, _last_charge(story)
    expires: Sentence = ("The payment expires at ", payment.expires_at, ".")
    sentences: list[Sentence] = []
    if payment.received_minor is not None:
        due = payment.quote.customer_pays
        sentences = [(payment.received, " of ", due, " was received. Checkout asks for the rest.")]
        if (ends := progress.get(payment.trx_id)) is not None:
            expires = ("Without the rest, this sandbox payment fails at ", ends.due_at, ".")
            return Whereabouts(Tone.UNDERWAY, (*sentences, expires))
    if charge is not None:
        sentences += _attempt(reader, story, charge, progress.get(charge.reference))
        return Whereabouts(Tone.UNDERWAY, (*sentences, expires), Help.QUERY)
    if payment.opened_at is None:
        sentences.append(("The customer has not opened checkout yet.",))
    else:
        sentences.append(("The customer opened checkout at ", payment.opened_at, "."))
    return Whereabouts(Tone.UNDERWAY, (*sentences, expires))


def _last_charge(story: PaymentStory) -> Charge | None:
    """Returns the latest charge that the customer may still have paid, or None."""
    if story.payment.is_sandbox:
        return None
    unpaid = [each for each in story.charges if not each.has_arrived]
    undecided = [each for each in unpaid if each.is_undecided]
    return next(reversed(undecided or unpaid), None)


def _attempt(
    reader: StoryReader, story: PaymentStory, charge: Charge, progress: JobProgress | None
) -> Iterator[Sentence]:
    name = reader.name(charge.provider)
    if charge.account_number is not None:
        account = f"{charge.account_number}, {charge.bank_name or name}"
        yield (f"The customer got the account number {account} at ", charge.created_at, ".")
    else:
        yield (f"The customer chose to pay with {name} at ", charge.created_at, ".")
    if (said_at := _said_sent_at(story, charge)) is not None:
        yield ("The customer said at ", said_at, " that the money was sent.")
    yield from _queries(name, progress)


def _said_sent_at(story: PaymentStory, charge: Charge) -> datetime | None:
    said = (
        step.at
        for step in story.steps
        if step.event == CUSTOMER_SENT and step.facts.get("charge") == charge.reference
    )
    return next(said, None)


async def of_refund(
    db: Database, reader: StoryReader, refund: Refund, hold: OutgoingHold | None
) -> Whereabouts:
    if not refund.is_open:
        return _ended_refund(reader, refund)
    if refund.by_operator:
        text = "The provider cannot pay this refund. An administrator pays it to the customer."
        return Whereabouts(Tone.STOPPED, ((text,),), reader.only_internal(Help.DECIDE))
    found = await jobs.progress(db, refund.merchant_id, JobKind.REFUND, [refund.trx_id])
    progress = found.get(refund.trx_id)
    if refund.provider is None:
        return _in_sandbox("refund", progress)
    name = reader.name(refund.provider)
    if hold is not None:
        text = f"{reader.hold(hold)} The refund is sent automatically when this ends."
        return Whereabouts(Tone.STOPPED, ((text,),), reader.only_internal(Help.DECIDE))
    if refund.sent_at is None:
        return Whereabouts(Tone.UNDERWAY, ((f"Not sent yet. {name} gets it in a moment.",),))
    sent: Sentence = (f"Sent to {name} at ", refund.first_sent_at or refund.sent_at, ".")
    return Whereabouts(Tone.UNDERWAY, (sent, *_queries(name, progress)), Help.QUERY)


def _ended_refund(reader: StoryReader, refund: Refund) -> Whereabouts:
    name = "The sandbox" if refund.provider is None else reader.name(refund.provider)
    who, at = "An administrator" if refund.by_operator else name, refund.updated_at
    when: Sentence = () if at is None else (" at ", at)
    if refund.status is RefundStatus.COMPLETED:
        paid: Sentence = (f"{who} paid ", refund.amount, " back to the customer")
        reported: Sentence = () if at is None else (". This was reported at ", at)
        return Whereabouts(Tone.ARRIVED, ((*paid, *reported, "."),))
    back: Sentence = (refund.amount, f" is back in {reader.wallet}.")
    if refund.is_of_customer_credit:
        back = (refund.amount, " is held for review.")
    return Whereabouts(Tone.ENDED, (("The refund failed", *when, "."), back))


def _ended_at(steps: Sequence[TimelineEvent], ended: Payment | Payout) -> datetime:
    """Returns when the transaction got its status."""
    changes = (step.at for step in reversed(steps) if step.from_status != step.to_status)
    return next(changes, ended.updated_at)
