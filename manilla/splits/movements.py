"""Moves money between the owner of a payment and its receivers. The ledger is always balanced.

The owner is credited with the whole payment, and passes the shares on in the same statement through
the account `internal`. Refunds and disputes debit the owner, so the shares come back first. Each
function needs the lock on the payment's row.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec

from manilla.kit import crash
from manilla.kit.database.connections import Connection
from manilla.kit.database.rows import common_fields
from manilla.ledger import outcomes, posting
from manilla.ledger.outcomes import ChangedRow, TimelineStep, TransactionOutcome
from manilla.ledger.posting import Posting
from manilla.merchants import wallets
from manilla.posting_kinds import PostingKind
from manilla.splits import fields, store
from manilla.splits.share import DividedPayment, PlannedShare, Share, ShareEvent, ShareStatus
from manilla.withheld.withheld import Holding, Movement

CHECK_CLAIMS = timedelta(hours=1)
NOTHING = Holding()
_REASONS = {
    ShareEvent.HELD: "Share held",
    ShareEvent.RELEASED: "Share of a payment",
    ShareEvent.RETURNED: "Refund or dispute of the payment",
    ShareEvent.SHORT: "Refund or dispute of the payment",
}


class Passed(msgspec.Struct, frozen=True):
    """What the credit of a payment passes on to its receivers."""

    postings: Sequence[Posting] = ()
    followers: Sequence[TransactionOutcome] = ()


def pass_on(paid: msgspec.Struct) -> Passed:
    """Returns what the credit of this payment adds to its outcome: nothing without a split."""
    payment = _divided(paid)
    if payment is None:
        return Passed()
    shares = [_new(payment, each) for each in payment.division.shares if each.minor]
    owned = Holding(0, sum(each.amount_minor for each in shares))
    moved = _of_owner(payment, NOTHING, owned, ShareEvent.RELEASED)
    return Passed([moved] if moved else [], [_credit(each) for each in shares])


def _divided(payment: msgspec.Struct) -> DividedPayment | None:
    found = DividedPayment(**common_fields(DividedPayment, payment))
    return None if found.split is None else found


def _new(payment: DividedPayment, planned: PlannedShare) -> Share:
    now, hold = datetime.now(UTC), payment.division.hold
    is_held = hold != "none"
    return Share(
        merchant_id=planned.merchant_id,
        trx_id=planned.trx_id,
        owner_id=payment.merchant_id,
        payment_trx_id=payment.trx_id,
        environment=payment.environment,
        ref_trx=payment.trx_id,
        currency=payment.currency,
        amount_minor=planned.minor,
        status=ShareStatus.HELD if is_held else ShareStatus.COMPLETED,
        withheld_minor=planned.minor if is_held else 0,
        hold_until=now + timedelta(days=hold) if isinstance(hold, int) else None,
        released_at=None if is_held else now,
        created_at=now,
        updated_at=now,
        traceparent=payment.traceparent,
    )


def _credit(share: Share) -> TransactionOutcome:
    """Returns the outcome of a new share, without a step: its posting is in the timeline."""
    event = _event(share)
    moved = _of_receiver(share, NOTHING, event)
    return _outcome(share, event, [moved] if moved else [])


@asynccontextmanager
async def following(connection: Connection, after: msgspec.Struct) -> AsyncIterator[None]:
    """Lets the shares follow what refunds and disputes take from the payment, or give back.

    `after`: the payment as the caller writes it. The receivers' money reaches the owner before the
    caller debits the owner. It goes back to them after the caller has credited the owner.
    """
    payment = _divided(after)
    if payment is None:
        yield
        return
    shares = await store.lock(connection, payment)
    wanted = {
        each.trx_id: payment.division.returned_minor(each.receiver, payment)
        for each in payment.division.shares
    }
    takes = [each for each in shares if wanted[each.trx_id] > each.returned_minor]
    gives = [each for each in shares if wanted[each.trx_id] < each.returned_minor]
    await _move(connection, payment, [(each, wanted[each.trx_id]) for each in takes])
    crash.point("amid_shares")
    yield
    await _move(connection, payment, [(each, wanted[each.trx_id]) for each in gives])


async def _move(
    connection: Connection, payment: DividedPayment, wanted: Sequence[tuple[Share, int]]
) -> None:
    """Takes money back from receivers, or gives it to them again. They can become short."""
    if not wanted:
        return
    followers, claims, internal = [], 0, 0
    for share, returned_minor in wanted:
        after = share.after_return(returned_minor)
        event = ShareEvent.RETURNED if returned_minor > share.returned_minor else _event(after)
        covered = await _covered(connection, _of_receiver(after, share.holding, event))
        if covered.short_minor:
            event = ShareEvent.SHORT
            after = after.changed(short_minor=after.short_minor + covered.short_minor)
        followers += _outcomes(share, after, event, covered.postings)
        claims += after.short_minor - share.short_minor
        internal += after.returned_minor - share.returned_minor
    owned = _of_owner(payment, NOTHING, Holding(claims, -internal), ShareEvent.RETURNED)
    moved = (await _covered(connection, owned)).postings
    await _apply(connection, payment, ShareEvent.RETURNED, moved, followers)


def _event(share: Share) -> ShareEvent:
    return ShareEvent.RELEASED if share.released_at else ShareEvent.HELD


async def release(
    connection: Connection, payment: DividedPayment, shares: Iterable[Share]
) -> list[Share]:
    """Releases held shares, which the caller has locked, to their receivers' wallets."""
    released, followers = [], []
    for share in shares:
        if share.released_at is None:
            after = share.changed(withheld_minor=0, released_at=datetime.now(UTC))
            moved = _of_receiver(after, share.holding, ShareEvent.RELEASED)
            covered = await _covered(connection, moved)
            followers += _outcomes(share, after, ShareEvent.RELEASED, covered.postings)
            released.append(after)
    if released:
        await _apply(connection, payment, ShareEvent.RELEASED, [], followers)
    return released


async def pay_claim(connection: Connection, payment: DividedPayment, share: Share) -> Share:
    """Gives the owner what the receiver of a short share has paid since, from its later credits.

    The receiver's other debts are paid before the owner's claims.
    """
    unpaid, claimed = await store.debt(connection, share)
    paid = min(share.short_minor, max(0, claimed - unpaid))
    if paid == 0:
        return share
    after = share.changed(short_minor=share.short_minor - paid)
    owned = _of_owner(payment, Holding(paid), NOTHING, ShareEvent.RETURNED)
    moved = (await _covered(connection, owned)).postings
    followers = _outcomes(share, after, ShareEvent.RETURNED, [])
    await _apply(connection, payment, ShareEvent.RETURNED, moved, followers)
    return after


async def _covered(connection: Connection, moved: Posting | None) -> wallets.CoveredPostings:
    """Returns the posting with its number. What a wallet cannot cover becomes a debt."""
    if moved is None:
        return wallets.CoveredPostings([], 0)
    return await wallets.cover_or_owe(connection, [await posting.with_number(connection, moved)])


async def _apply(
    connection: Connection,
    payment: DividedPayment,
    event: ShareEvent,
    moved: Sequence[Posting],
    followers: Sequence[TransactionOutcome],
) -> None:
    outcome = TransactionOutcome(
        merchant_id=payment.merchant_id,
        trx_id=payment.trx_id,
        environment=payment.environment,
        currency=payment.currency,
        rows=[],
        step=TimelineStep(f"shares_{event}", payment.status, payment.status),
        postings=moved,
        followers=followers,
    )
    is_written = await outcomes.apply(connection, outcome)
    assert is_written, "shares may exceed a wallet's maximum balance"


def _outcomes(
    before: Share, after: Share, event: ShareEvent, moved: Sequence[Posting]
) -> list[TransactionOutcome]:
    """Returns the outcome of the share, and the event for the owner."""
    without_step = _outcome(after, event, moved)
    facts = {"amount": str(after.amount), "returned": str(after.returned)}
    step = TimelineStep(f"share_{event}", before.status, after.status, facts=facts)
    for_owner = msgspec.structs.replace(
        without_step,
        merchant_id=after.owner_id,
        trx_id=after.payment_trx_id,
        rows=[],
        postings=[],
        notice=fields.notice(after.owner_id, after, event),
    )
    return [for_owner, msgspec.structs.replace(without_step, step=step)]


def _outcome(after: Share, event: ShareEvent, moved: Sequence[Posting]) -> TransactionOutcome:
    due_at = after.hold_until if after.withheld_minor else None
    if after.short_minor:
        due_at = datetime.now(UTC) + CHECK_CLAIMS
    columns = {name: getattr(after, name) for name in store.WRITTEN}
    return TransactionOutcome(
        merchant_id=after.merchant_id,
        trx_id=after.trx_id,
        environment=after.environment,
        currency=after.currency,
        rows=[ChangedRow("split", after.trx_id, {**columns, "due_at": due_at})],
        step=None,
        postings=moved,
        notice=fields.notice(after.merchant_id, after, event),
    )


def _of_receiver(after: Share, before: Holding, event: ShareEvent) -> Posting | None:
    return Movement(
        merchant_id=after.merchant_id,
        trx_id=after.trx_id,
        environment=after.environment,
        currency=after.currency,
        before=before,
        after=after.holding,
        taker=posting.INTERNAL,
        kind=PostingKind.SHARE,
        reason=_REASONS[event],
    ).posting()


def _of_owner(
    payment: DividedPayment, before: Holding, after: Holding, event: ShareEvent
) -> Posting | None:
    return Movement(
        merchant_id=payment.merchant_id,
        trx_id=payment.trx_id,
        environment=payment.environment,
        currency=payment.currency,
        before=before,
        after=after,
        taker=posting.INTERNAL,
        kind=PostingKind.SPLIT,
        reason=_REASONS[event],
    ).posting()
