"""Collects everything known about one payment, payout or dispute. The caller sorts it by time."""

from datetime import datetime

import msgspec

from manilla.cases.listing import has_open
from manilla.disputes import store as disputes
from manilla.disputes.dispute import Dispute
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import listing as books
from manilla.ledger import timeline
from manilla.ledger.listing import PostingLine
from manilla.ledger.timeline import TimelineEvent
from manilla.ledger.transactions import TransactionNotFound
from manilla.merchants.requests import stored as stored_requests
from manilla.merchants.requests.stored import Request
from manilla.notify import listing as notices
from manilla.notify.listing import NotificationWithAttempts
from manilla.payments import store as payments
from manilla.payments.listing import ListedStatus, listed_status
from manilla.payments.payment import Charge, Payment, PaymentStatus
from manilla.payments.suspense import HeldMoney, held_money
from manilla.payouts import store as payouts
from manilla.payouts.explanation import ExplainedAttempt, explain_attempts
from manilla.payouts.payout import Payout
from manilla.providers import listing as providers
from manilla.providers.listing import ReceivedWebhook
from manilla.providers.rails import Rails
from manilla.refunds import store as refund_queries
from manilla.refunds.refund import Refund, RefundStatus, refunded_minor
from manilla.splits import store as splits
from manilla.splits.share import Share, shared_minor
from manilla.transaction_types import PAYMENT, PAYOUT, TYPES, TransactionType, children_of


class TransactionStory(msgspec.Struct, frozen=True, kw_only=True):
    requests: list[Request]  # API requests about the transaction that are still in the log
    webhooks: list[ReceivedWebhook]
    steps: list[TimelineEvent]
    postings: list[PostingLine]
    notifications: list[NotificationWithAttempts]


class WrongAmount(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts of a payment for which the customer paid a wrong amount."""

    due: Money
    received: Money
    surplus: Money
    rest: Money
    waiting: Money  # the total of refunds that have not started yet
    returning: Money
    returned: Money
    not_returned: Money  # the amount of failed refunds
    is_pending: bool
    is_paid: bool


class PaymentStory(TransactionStory, frozen=True, kw_only=True):
    payment: Payment
    charges: list[Charge]
    held: list[HeldMoney]
    refunds: list[Refund]
    disputes: list[Dispute]
    shares: list[Share]  # of the receivers
    is_under_review: bool

    @property
    def state(self) -> ListedStatus:
        return listed_status(
            self.payment, self.refunded.minor, is_under_review=self.is_under_review
        )

    @property
    def refunded(self) -> Money:
        """The amount that completed refunds have paid back, without the commission."""
        return self._refunds(RefundStatus.COMPLETED)

    @property
    def refunding(self) -> Money:
        """The amount that pending refunds will pay back."""
        return self._refunds(RefundStatus.PENDING)

    @property
    def net(self) -> Money:
        """The amount that the wallet receives for the payment, before refunds."""
        quote = self.payment.quote
        deducted = quote.deducted_later(self.payment.environment)
        return quote.merchant_receives - deducted - self.shared

    @property
    def shared(self) -> Money:
        """What other receivers get of the payment, before refunds."""
        return Money(self.payment.currency, shared_minor(self.payment.split))

    @property
    def wrong_amount(self) -> WrongAmount | None:
        """The amounts if a rule for wrong amounts was applied, otherwise None."""
        payment = self.payment
        if payment.received_minor is None:
            return None
        is_pending = payment.status is PaymentStatus.PENDING
        due, nothing = payment.quote.customer_pays, Money(payment.currency, 0)
        credit_minor = sum(each.credit_minor for each in self.charges)
        return WrongAmount(
            due=due,
            received=payment.received,
            surplus=max(payment.received - due, nothing),
            rest=payment.rest,
            waiting=nothing if is_pending else Money(payment.currency, credit_minor),
            returning=self._returned(RefundStatus.PENDING),
            returned=self._returned(RefundStatus.COMPLETED),
            not_returned=self._returned(RefundStatus.FAILED),
            is_pending=is_pending,
            is_paid=payment.status is PaymentStatus.SUCCESS,
        )

    def _returned(self, status: RefundStatus) -> Money:
        minor = sum(each.customer_credit_minor for each in self.refunds if each.status is status)
        return Money(self.payment.currency, minor)

    @property
    def paid_at(self) -> datetime | None:
        paid = (step.at for step in self.steps if step.to_status == PaymentStatus.SUCCESS)
        return next(paid, None)

    @property
    def charge(self) -> Charge | None:
        """The charge through which the customer paid, or else the latest charge."""
        credited = self.payment.credited_charge
        last = self.charges[-1] if self.charges else None
        return next((each for each in self.charges if each.reference == credited), last)

    def refund_note(self, rails: Rails) -> str:
        """Returns what the payment's provider may not refund, or an empty string."""
        if self.charge is None or self.charge.is_bank_transfer:
            return ""
        account = rails.accounts.get(self.charge.provider)
        return "" if account is None else account.kind.refund_note

    def _refunds(self, status: RefundStatus) -> Money:
        return Money(self.payment.currency, refunded_minor(self.refunds, status))


class PayoutStory(TransactionStory, frozen=True, kw_only=True):
    payout: Payout
    attempts: list[ExplainedAttempt]  # the list is empty unless the rail was chosen automatically


async def transaction_story(
    db: Database, kind: TransactionType, merchant_id: int, trx_id: str
) -> TransactionStory:
    """Returns what is known about a transaction of any type."""
    key = merchant_id, trx_id
    row = await db.record(
        f"SELECT ref_trx, created_at FROM {kind.name} WHERE merchant_id = $1 AND trx_id = $2", *key
    )
    if row is None:
        raise TransactionNotFound
    ids = await db.records(_IDS[kind.name], *key)
    owners = {each["id"]: each["provider"] for each in ids}
    return TransactionStory(
        requests=await stored_requests.requests_about(db, *key, row["ref_trx"], row["created_at"]),
        webhooks=await providers.webhooks_from_owners(db, merchant_id, owners),
        steps=await timeline.steps(db, *key),
        postings=await books.postings_of(db, merchant_id, list(owners)),
        notifications=await notices.of_transaction(db, *key),
    )


def _ids_of(kind: TransactionType) -> str:
    """Selects the ids of a transaction, of its parts, and of the transactions that belong to it."""
    found = [("trx_id", each) for each in kind.ids]
    found += [(child.parent_column, child.ids[0]) for child in children_of(kind)]
    return " UNION ALL ".join(
        f"SELECT {each.column} AS id, {'provider' if each.has_provider else 'NULL'} AS provider"
        f" FROM {each.table} WHERE merchant_id = $1 AND {key} = $2 AND {each.column} IS NOT NULL"
        for key, each in found
    )


_IDS = {kind.name: _ids_of(kind) for kind in TYPES}


async def payment_story(
    db: Database, merchant_id: int, trx_id: str, *, environment: Environment | None = None
) -> PaymentStory | None:
    """Returns the payment's full history, or None if it does not exist in this environment."""
    payment = await payments.payment(db, merchant_id, trx_id)
    if payment is None or environment not in (None, payment.environment):
        return None
    charges = await payments.charges(db, merchant_id, trx_id)
    return PaymentStory(
        **msgspec.structs.asdict(await transaction_story(db, PAYMENT, merchant_id, trx_id)),
        payment=payment,
        charges=charges,
        held=await held_money(db, charges),
        refunds=await refund_queries.refunds_of(db, merchant_id, trx_id),
        disputes=await disputes.disputes_of(db, merchant_id, trx_id),
        shares=await splits.shares_of(db, merchant_id, trx_id) if payment.split else [],
        is_under_review=await has_open(db, merchant_id, trx_id),
    )


async def payout_story(
    db: Database, merchant_id: int, trx_id: str, *, environment: Environment | None = None
) -> PayoutStory | None:
    """Returns the payout's full history, or None if it does not exist in this environment."""
    payout = await payouts.payout(db, merchant_id, trx_id)
    if payout is None or environment not in (None, payout.environment):
        return None
    common = await transaction_story(db, PAYOUT, merchant_id, trx_id)
    attempts = await explain_attempts(db, merchant_id, trx_id) if payout.is_routed else []
    return PayoutStory(**msgspec.structs.asdict(common), payout=payout, attempts=attempts)


async def of_dispute(
    db: Database, dispute: Dispute
) -> tuple[list[TimelineEvent], list[PostingLine]]:
    """Returns the events on the payment's timeline that are about the dispute, and its postings."""
    steps = await timeline.steps(db, dispute.merchant_id, dispute.payment_trx_id)
    return (
        [each for each in steps if each.facts.get("dispute") == dispute.trx_id],
        await books.postings_of(db, dispute.merchant_id, [dispute.trx_id]),
    )
