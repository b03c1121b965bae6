"""One simulated provider: its contract and its state."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from itertools import count

import msgspec

from manilla.kit.money import Money
from manilla_simulator.faults import Faults
from manilla_simulator.settings import SimulatorSettings
from manilla_simulator.state import ChargeShelf, Refund, Shelf, Transfer, Wallet
from manilla_simulator.webhooks import Outbox
from manilla_simulator.wire import Wire

JOURNAL_MAX = 1000
FIRST_NUMBER = 1_000_001


class Received(msgspec.Struct, frozen=True):
    """A request in the journal."""

    at: datetime
    call: str
    method: str
    path: str
    raw: bytes
    status: int  # 0: no answer was sent
    answer: bytes
    fault: str | None


class Provider:
    def __init__(self, wire: Wire, settings: SimulatorSettings) -> None:
        self.wire = wire
        self.settings = settings
        self.wallet = Wallet()
        self.charges = ChargeShelf(settings.objects_max)
        self.transfers: Shelf[Transfer] = Shelf(settings.objects_max)
        self.refunds: Shelf[Refund] = Shelf(settings.objects_max)
        self.faults = Faults(settle_seconds=settings.settle_seconds)
        self.outbox = Outbox(wire, settings, self.faults)
        self.journal: deque[Received] = deque(maxlen=JOURNAL_MAX)
        self.numbers: Iterator[int] = count(FIRST_NUMBER)

    @property
    def base_url(self) -> str:
        return f"{self.settings.base_url.rstrip('/')}/{self.wire.key}"

    def adjust(self, available: Money, held: Money | None = None) -> None:
        """Moves the wallet's balances when a charge, transfer or refund changes state."""
        self.wallet.available += available
        if held is not None:
            self.wallet.held += held

    def reset(self) -> None:
        """Restores the state at program start."""
        for transfer in self.transfers.select():
            if transfer.timer is not None:
                transfer.timer.cancel()
        for refund in self.refunds.select():
            if refund.timer is not None:
                refund.timer.cancel()
        for shelf in (self.charges, self.transfers, self.refunds):
            shelf.clear()
        self.wallet = Wallet()
        self.faults = Faults(settle_seconds=self.settings.settle_seconds)
        self.outbox.faults = self.faults
        self.outbox.forget()
        self.journal.clear()
