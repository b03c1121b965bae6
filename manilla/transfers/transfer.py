"""The properties that payouts and refunds have in common."""

from datetime import datetime, timedelta
from typing import Protocol

from manilla.kit.environment import Environment
from manilla.kit.money import Money


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
        """When the transfer was marked as sent, which happens before its first byte is sent."""

    @property
    def age(self) -> timedelta:
        """How long the provider has had to process the transfer."""

    @property
    def on_behalf(self) -> bool:
        """Whether an administrator ordered the transfer, whatever the merchant's status."""

    @property
    def may_be_sent(self) -> bool:
        """Whether a worker may send it: not if it was left to an administrator, for example."""

    @property
    def case_trx_id(self) -> str:
        """The id of the transaction that a case about the transfer refers to."""


def is_unsent(transfer: Transfer) -> bool:
    """Whether the transfer is open and no worker has started to send it."""
    return transfer.is_open and transfer.sent_at is None
