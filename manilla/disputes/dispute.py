"""A dispute, its statuses and their transitions."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.ids import TimedIds
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.prices import price as prices
from manilla.withheld.withheld import Holding

DISPUTE_IDS = TimedIds("DSP", 1_000, 10)
# The provider's id of a dispute that only its statement shows, until the provider reports its own.
STATEMENT_PREFIX = "statement:"

TEXT_LENGTH_MAX = 5_000
FIELDS_MAX = 30
FIELD_LENGTH_MAX = 1_000
FILES_MAX = 10


class DisputeStatus(StrEnum):
    NEEDS_RESPONSE = "needs_response"
    SUBMITTED = "submitted"  # the merchant has answered, or a person has answered at the provider
    WON = "won"  # the merchant keeps the money
    LOST = "lost"
    ACCEPTED = "accepted"  # the merchant has accepted the dispute, at least in part


class DisputeEvent(StrEnum):
    """What happens to a dispute. The values are the events that merchants are notified of."""

    OPENED = "opened"
    UPDATED = "updated"  # amount, deadline, stage or what is withheld has changed
    SUBMITTED = "submitted"
    REOPENED = "reopened"
    WON = "won"
    LOST = "lost"
    ACCEPTED = "accepted"
    DEADLINE_MISSED = "deadline_missed"


class AnswerState(StrEnum):
    """Where the merchant's answer is."""

    REVIEW = "review"  # an operator reviews it first
    WAITING = "waiting"  # a job sends it
    SENDING = "sending"  # the outcome of the request is not known yet
    MANUAL = "manual"  # an operator sends it at the provider
    SENT = "sent"
    REJECTED = "rejected"  # the provider has rejected it; `answer_detail` has its words

    @property
    def is_unsent(self) -> bool:
        """Whether the provider certainly does not have the answer."""
        return self in (AnswerState.REVIEW, AnswerState.WAITING, AnswerState.MANUAL)


OPEN = (DisputeStatus.NEEDS_RESPONSE, DisputeStatus.SUBMITTED)

# Unlisted transitions change nothing. A provider can reopen a dispute, and can correct its outcome.
# A stage can begin and end between two queries, so any outcome can follow any other.
NEXT: dict[tuple[DisputeStatus, DisputeEvent], DisputeStatus] = {
    (DisputeStatus.NEEDS_RESPONSE, DisputeEvent.SUBMITTED): DisputeStatus.SUBMITTED,
    (DisputeStatus.NEEDS_RESPONSE, DisputeEvent.WON): DisputeStatus.WON,
    (DisputeStatus.NEEDS_RESPONSE, DisputeEvent.LOST): DisputeStatus.LOST,
    (DisputeStatus.NEEDS_RESPONSE, DisputeEvent.ACCEPTED): DisputeStatus.ACCEPTED,
    (DisputeStatus.SUBMITTED, DisputeEvent.REOPENED): DisputeStatus.NEEDS_RESPONSE,
    (DisputeStatus.SUBMITTED, DisputeEvent.WON): DisputeStatus.WON,
    (DisputeStatus.SUBMITTED, DisputeEvent.LOST): DisputeStatus.LOST,
    (DisputeStatus.SUBMITTED, DisputeEvent.ACCEPTED): DisputeStatus.ACCEPTED,
    (DisputeStatus.WON, DisputeEvent.REOPENED): DisputeStatus.NEEDS_RESPONSE,
    (DisputeStatus.WON, DisputeEvent.SUBMITTED): DisputeStatus.SUBMITTED,
    (DisputeStatus.WON, DisputeEvent.LOST): DisputeStatus.LOST,
    (DisputeStatus.WON, DisputeEvent.ACCEPTED): DisputeStatus.ACCEPTED,
    (DisputeStatus.LOST, DisputeEvent.REOPENED): DisputeStatus.NEEDS_RESPONSE,
    (DisputeStatus.LOST, DisputeEvent.SUBMITTED): DisputeStatus.SUBMITTED,
    (DisputeStatus.LOST, DisputeEvent.WON): DisputeStatus.WON,
    (DisputeStatus.LOST, DisputeEvent.ACCEPTED): DisputeStatus.ACCEPTED,
    (DisputeStatus.ACCEPTED, DisputeEvent.REOPENED): DisputeStatus.NEEDS_RESPONSE,
    (DisputeStatus.ACCEPTED, DisputeEvent.SUBMITTED): DisputeStatus.SUBMITTED,
    (DisputeStatus.ACCEPTED, DisputeEvent.WON): DisputeStatus.WON,
    (DisputeStatus.ACCEPTED, DisputeEvent.LOST): DisputeStatus.LOST,
}


class DisputeClosed(Refusal):
    code = "dispute_closed"
    message = "The dispute does not need a response now."


class DeadlinePassed(Refusal):
    code = "dispute_deadline_passed"
    message = "The deadline for a response has passed."


class EvidenceIncomplete(Refusal):
    code = "evidence_incomplete"
    message = "The provider needs more evidence. Complete the named fields."


class EvidenceRejected(Refusal):
    code = "evidence_rejected"
    message = "The provider has rejected the evidence. Change it, and submit it again."


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    merchant_id: int
    trx_id: str
    payment_trx_id: str
    environment: Environment
    ref_trx: str  # the payment's reference
    charge_reference: str | None  # None in the sandbox
    provider: str
    provider_reference: str
    currency: str
    amount_minor: int
    status: DisputeStatus
    stage: str
    category: str
    reason: str
    created_at: datetime
    opened_at: datetime  # at the provider
    respond_by: datetime
    reported_at: datetime  # when the latest applied report was requested from the provider
    updated_at: datetime
    missed_at: datetime | None = None
    reminders: int = 0  # the number of reminders that were sent for this deadline
    outcome_at: datetime | None = None
    withheld_minor: int = 0
    taken_minor: int = 0
    # What the wallet could not cover when it was withheld or taken. It is a debt of the merchant.
    short_minor: int = 0
    fee_minor: int = 0  # the provider's fee, which the merchant bears unless there is a `price`
    price: str | None = None  # what the merchant's plan charges; None: the plan has no such line
    commission_minor: int = 0  # the part of the payment's commission that was returned
    accepted_minor: int | None = None  # what the merchant accepts; None: nothing
    evidence_text: str = ""
    evidence_fields: str = "{}"
    answer: AnswerState | None = None
    answer_detail: str = ""
    answered_at: datetime | None = None
    traceparent: str | None = None

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.merchant_id, self.environment)

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def withheld(self) -> Money:
        return Money(self.currency, self.withheld_minor)

    @property
    def taken(self) -> Money:
        return Money(self.currency, self.taken_minor)

    @property
    def short(self) -> Money:
        return Money(self.currency, self.short_minor)

    @property
    def fee(self) -> Money:
        """What the merchant pays: the fee of its plan or, without one, the provider's fee."""
        if self.price is None:
            return Money(self.currency, self.fee_minor)
        return Money(self.currency, sum(part.minor for part in prices.read(self.price).parts))

    @property
    def accepted(self) -> Money | None:
        """What the merchant accepts, which the provider may have lowered since."""
        if self.accepted_minor is None:
            return None
        return Money(self.currency, min(self.accepted_minor, self.amount_minor))

    @property
    def fields(self) -> Mapping[str, str]:
        """The structured evidence that the provider asks for."""
        return msgspec.json.decode(self.evidence_fields, type=dict[str, str])

    @property
    def is_from_statement(self) -> bool:
        return self.provider_reference.startswith(STATEMENT_PREFIX)

    @property
    def is_sandbox(self) -> bool:
        return self.environment is Environment.SANDBOX

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def is_missed(self) -> bool:
        return self.missed_at is not None

    @property
    def is_due(self) -> bool:
        """Whether the deadline has passed without an answer."""
        return self.is_unanswered and datetime.now(UTC) >= self.respond_by

    @property
    def is_unanswered(self) -> bool:
        """Whether the provider has no answer yet, because nobody has answered or sent it."""
        is_unsent = self.answer is not None and self.answer.is_unsent
        return self.status is DisputeStatus.NEEDS_RESPONSE or (
            self.status is DisputeStatus.SUBMITTED and is_unsent
        )

    @property
    def is_on_its_way(self) -> bool:
        """Whether a job sends the answer. A provider can decide the dispute before that."""
        is_sent_by_job = self.answer in (AnswerState.WAITING, AnswerState.SENDING)
        return self.status is DisputeStatus.SUBMITTED and is_sent_by_job

    @property
    def is_rejected(self) -> bool:
        return self.answer is AnswerState.REJECTED

    @property
    def is_acceptance(self) -> bool:
        """Whether the merchant's answer accepts the dispute, at least in part."""
        return self.accepted_minor is not None

    @property
    def holding(self) -> Holding:
        return Holding(self.withheld_minor, self.taken_minor)

    @property
    def uncovered(self) -> Money:
        """What the payment does not cover of what the provider holds or took."""
        wanted = holding_in(self.status, self.amount_minor, self.accepted_minor)
        return Money(self.currency, wanted.total - self.holding.total)


class DisputeFile(msgspec.Struct, frozen=True):
    """A file of the evidence, without its content."""

    merchant_id: int
    trx_id: str
    number: int
    name: str
    media_type: str
    size_bytes: int
    provider_file: str | None
    created_at: datetime


def holding_in(status: DisputeStatus, covered_minor: int, accepted_minor: int | None) -> Holding:
    """Returns what a dispute in this status holds and has taken.

    `covered_minor`: the disputed amount, or less if the payment has less left.
    """
    match status:
        case DisputeStatus.NEEDS_RESPONSE | DisputeStatus.SUBMITTED:
            return Holding(covered_minor, 0)
        case DisputeStatus.LOST:
            return Holding(0, covered_minor)
        case DisputeStatus.ACCEPTED:
            return Holding(0, min(covered_minor, accepted_minor or covered_minor))
        case DisputeStatus.WON:
            return Holding(0, 0)
