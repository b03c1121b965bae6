"""Code that payouts and refunds share: their properties, their events and the events' sources."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, TypeGuard

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.providers.port import (
    Answer,
    RefundState,
    RefusalCode,
    Refused,
    ReportedRefundStatus,
    TransferState,
    Unknown,
)
from manilla.providers.port import TransferStatus as Status

ProviderState = TransferState | RefundState
ProviderAnswer = Answer[TransferState] | Answer[RefundState]


class Transfer(Protocol):
    @property
    def merchant_id(self) -> int: ...

    @property
    def trx_id(self) -> str: ...

    @property
    def environment(self) -> Environment: ...

    @property
    def amount(self) -> Money: ...

    @property
    def provider(self) -> str | None: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def sent_at(self) -> datetime | None:
        """The time when the transfer was marked as sent, which is before its first byte is sent."""

    @property
    def age(self) -> timedelta:
        """The time that the provider has had to process the transfer."""

    @property
    def on_behalf(self) -> bool:
        """True if an administrator ordered the transfer, regardless of the merchant's status."""

    @property
    def may_be_sent(self) -> bool:
        """Returns True if a worker may send the transfer.

        Returns False, for example, if an administrator must decide on the transfer.
        """

    @property
    def destination(self) -> str | None:
        """A digest of what is paid to whom, which is compared before the transfer is sent."""

    @property
    def case_trx_id(self) -> str:
        """The id of the transaction that a case about this transfer refers to."""


def is_unsent(transfer: Transfer) -> bool:
    """Returns True if the transfer is open and no worker has started to send it."""
    return transfer.is_open and transfer.sent_at is None


class TransferEvent(StrEnum):
    DELIVERED = "delivered"
    FAILED = "failed"
    REVERSED = "reversed"  # the bank returned the transfer after delivery
    RETURNED = "returned"  # means REVERSED if the transfer was delivered, otherwise FAILED
    REJECTED = "rejected"  # an administrator rejected the transfer, or the merchant stopped it


# Maps the provider's final statuses to transfer events.
EVENTS: dict[Status | ReportedRefundStatus, TransferEvent] = {
    Status.DELIVERED: TransferEvent.DELIVERED,
    Status.FAILED: TransferEvent.FAILED,
    Status.REVERSED: TransferEvent.REVERSED,
    Status.RETURNED: TransferEvent.RETURNED,
    ReportedRefundStatus.PAID: TransferEvent.DELIVERED,
    ReportedRefundStatus.FAILED: TransferEvent.FAILED,
}


def is_known(state: ProviderState) -> bool:
    return state.status not in (Status.NOT_FOUND, ReportedRefundStatus.NOT_FOUND)


def will_not_pay(answer: ProviderAnswer) -> TypeGuard[Refused | Unknown]:
    """Returns True if the response to the first request proves that the provider will not pay.

    The provider rejected the transfer, or never received it.
    """
    return isinstance(answer, Refused) or (isinstance(answer, Unknown) and answer.never_sent)


class Source(StrEnum):
    """The source that reported an event. The values are stored in timelines."""

    PROVIDER = "rejected by the provider"  # the provider's response when the transfer was sent
    STATUS_QUERY = "status query"
    RECONCILIATION = "reconciliation"
    MERCHANT = "stopped by the merchant"  # before the transfer was sent
    ADMINISTRATOR = "an administrator"
    SANDBOX = "sandbox"


class TransferResult(msgspec.Struct, frozen=True):
    """A transfer's event, with the source that reported the event."""

    event: TransferEvent
    source: Source
    error_code: RefusalCode | None = None
    guidance: str | None = None
    state: TransferState | None = None  # the transfer's state that the provider reported
    bank_reference: str | None = None
    circumstance: str = ""  # added to the source's text

    @property
    def provider_fee(self) -> Money | None:
        return None if self.state is None else self.state.fee

    @property
    def source_text(self) -> str:
        return f"{self.source}{self.circumstance}"


def rejection(answer: Refused) -> TransferResult:
    """Returns the event for a transfer that the provider rejected when it was first sent."""
    return TransferResult(TransferEvent.FAILED, Source.PROVIDER, answer.code, answer.guidance)


def event_of(state: ProviderState) -> TransferResult:
    """Returns the event for the status that a query returned. The status must be final."""
    event = EVENTS[state.status]
    code = None if event is TransferEvent.DELIVERED else RefusalCode.GATEWAY_PAYOUT_FAILED
    if isinstance(state, RefundState):
        return TransferResult(event, Source.STATUS_QUERY, code)
    return TransferResult(event, Source.STATUS_QUERY, code, state.message or None, state)
