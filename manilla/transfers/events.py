"""What can happen to a transfer, and who reports it."""

from enum import StrEnum

import msgspec

from manilla.kit.money import Money
from manilla.providers.port import RefusalCode


class TransferEvent(StrEnum):
    DELIVERED = "delivered"
    FAILED = "failed"
    REVERSED = "reversed"  # the bank returned it after delivery
    REJECTED = "rejected"  # by an administrator


class Source(StrEnum):
    """Who reported an event; the values are stored in timelines."""

    PROVIDER = "rejected by the provider"  # its response when the transfer was sent
    STATUS_QUERY = "status query"
    RECONCILIATION = "reconciliation"
    ADMINISTRATOR = "an administrator"
    SANDBOX = "sandbox"


class SettlementEvent(msgspec.Struct, frozen=True):
    """An event of a transfer, with the source that reported it."""

    event: TransferEvent
    source: Source
    error_code: RefusalCode | None = None
    guidance: str | None = None
    provider_reference: str | None = None
    provider_fee: Money | None = None
    bank_reference: str | None = None
    circumstance: str = ""  # added to the source's text

    @property
    def source_text(self) -> str:
        return f"{self.source}{self.circumstance}"
