"""One simulated provider: its contract and its state."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from itertools import count

import msgspec

from manilla.kit.money import Money
from manilla_simulator.faults import Faults
from manilla_simulator.settings import Account, SimulatorSettings
from manilla_simulator.state import (
    NOTHING,
    Card,
    Charge,
    ChargeShelf,
    Dispute,
    EvidenceFile,
    Mandate,
    Movement,
    PermanentAccount,
    Recipient,
    Refund,
    Shelf,
    Transfer,
    Wallet,
    now,
)
from manilla_simulator.webhooks import Outbox
from manilla_simulator.wire import Wire

JOURNAL_MAX = 1000
STATEMENT_MAX = 100_000
FIRST_NUMBER = 1_000_001


class Received(msgspec.Struct, frozen=True):
    at: datetime
    call: str
    method: str
    path: str
    raw: bytes
    status: int  # 0 if no response was sent
    answer: bytes
    fault: str | None


class Provider:
    def __init__(self, wire: Wire, settings: SimulatorSettings) -> None:
        self.wire = wire
        self.settings = settings
        self.account = wire.account(settings)
        self.wallet = Wallet()
        self.charges = ChargeShelf(settings.objects_max)
        self.accounts: Shelf[PermanentAccount] = Shelf(settings.objects_max)
        self.transfers: Shelf[Transfer] = Shelf(settings.objects_max)
        self.refunds: Shelf[Refund] = Shelf(settings.objects_max)
        self.disputes: Shelf[Dispute] = Shelf(settings.objects_max)
        self.files: Shelf[EvidenceFile] = Shelf(settings.objects_max)
        self.cards: Shelf[Card] = Shelf(settings.objects_max)
        self.mandates: Shelf[Mandate] = Shelf(settings.objects_max)
        self.recipients: Shelf[Recipient] = Shelf(settings.objects_max)
        self.tokens: dict[str, datetime] = {}  # maps each access token to its expiry time
        self.statement: deque[Movement] = deque(maxlen=STATEMENT_MAX)
        self.faults = Faults(settle_seconds=settings.settle_seconds)
        self.outbox = Outbox(wire, settings, self.faults, self.account)
        self.journal: deque[Received] = deque(maxlen=JOURNAL_MAX)
        self.numbers: Iterator[int] = count(FIRST_NUMBER)

    @property
    def base_url(self) -> str:
        return f"{self.settings.base_url.rstrip('/')}/{self.wire.key}"

    def change_account(self, account: Account) -> None:
        self.account = self.outbox.account = account

    def adjust(
        self, item: Charge | Transfer | Refund | Dispute, available: Money, held: Money = NOTHING
    ) -> None:
        """Updates the wallet's balances when a charge, transfer, refund or dispute changes."""
        self.wallet.held += held
        self._book(type(item).__name__.lower(), item.reference, item.number, available)

    def set_balance(self, available: Money) -> None:
        self._book("", "", 0, available - self.wallet.available)

    def _book(self, kind: str, reference: str, item_number: int, difference: Money) -> None:
        if difference == NOTHING:
            return
        self.wallet.available += difference
        self.statement.append(
            Movement(
                number=next(self.numbers),
                at=now(),
                kind=kind,
                reference=reference,
                item_number=item_number,
                difference=difference,
                balance=self.wallet.available,
            )
        )

    def reset(self) -> None:
        for shelf in (*(self.charges, self.accounts, self.transfers, self.refunds, self.disputes),):
            for item in shelf.select():
                if item.timer is not None:
                    item.timer.cancel()
            shelf.clear()
        self.recipients.clear()
        self.cards.clear()
        self.mandates.clear()
        self.files.clear()
        self.tokens.clear()
        self.statement.clear()
        self.wallet = Wallet()
        self.change_account(self.wire.account(self.settings))
        self.faults = Faults(settle_seconds=self.settings.settle_seconds)
        self.outbox.faults = self.faults
        self.outbox.forget()
        self.journal.clear()
