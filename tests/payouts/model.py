"""Payouts in plain arithmetic: what must become of them, whatever happens.

Written from the decisions on payouts and the rules that all providers share; it knows no line of
the product.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.payouts.payout_merchant import MANUAL

FEE_FIXED, FEE_PERCENT = "25", "1.5"
AT_FIRST, MIDDLING = 1_500_000, 150_000

# What can become of a call for a transfer: how the provider is told to behave, whether it has then
# taken the transfer on, and whether its answer is its own conclusive refusal.
SENDS: dict[str, tuple[dict[str, Any] | None, bool, bool]] = {
    "accepted": (None, True, False),
    "accepted, 5xx": ({"fault": "5xx_after_accept"}, True, False),
    "accepted, reset": ({"fault": "reset_after_accept"}, True, False),
    "accepted, garbage": ({"fault": "garbage_after_accept"}, True, False),
    "lost, 5xx": ({"fault": "5xx_before"}, False, False),
    "lost, reset": ({"fault": "reset"}, False, False),
    "401": ({"fault": "refuse", "status": 401, "message": "Unauthorized"}, False, False),
    "429": ({"fault": "refuse", "status": 429, "message": "Too many requests"}, False, False),
    "duplicate": (
        {"fault": "refuse", "status": 400, "message": "Duplicate reference"},
        False,
        False,
    ),
    "refused": ({"fault": "refuse", "status": 400, "message": "Refused"}, False, True),
    "no funds": ({"fault": "refuse", "status": 402, "message": "Insufficient funds"}, False, True),
    "not enabled": ({"fault": "refuse", "status": 403, "message": "Not enabled"}, False, True),
}
# Where a process can die amid a job, in the order in which it gets there.
POINTS = [
    "after_claim",
    "before_transfer_is_sent",
    "after_send_is_begun",
    "after_transfer_is_sent",
    "between_status_and_refund",
    "before_payout_commit",
    "after_payout_commit",
]
COMPLETED, FAILED, REVERSED = "Payout Completed", "Payout Failed", "Payout Reversed"
CANCELED = "Payout Canceled"


def fee_of(amount: int) -> int:
    """25.00 and 1.5 %, half up to the kobo."""
    return 2500 + (amount * 15 + 500) // 1000


class Killed(BaseException):
    """The process is gone: no handler of errors sees it."""


@dataclass
class Order:
    """A payout as the model knows it."""

    ref_trx: str
    rail: str
    amount: int
    status: str = "pending"
    told: list[str] = field(default_factory=list)
    is_begun: bool = False  # a first byte may have gone out: no refusal is conclusive any more
    at_provider: str | None = None
    said: list[str] = field(default_factory=list)  # what the provider has been, in order
    webhooks: set[str] = field(default_factory=set)
    is_worked_on: bool = True  # somebody will still ask
    is_old: bool = False
    number: int = 0  # raised by each claim of its job, and by each new cause for it
    holder: int | None = None  # the number of the claim that holds it

    @property
    def payable(self) -> int:
        return self.amount + fee_of(self.amount)


class Model:
    """What must be so. Plain dictionaries and integers; no call of the product."""

    def __init__(self) -> None:
        self.balance = 0
        self.orders: dict[str, Order] = {}
        self.cases: set[tuple[str, str]] = set()
        self.is_down = False
        self.is_disabled = False
        self.has_payouts_off = False
        self.dies_at: str | None = None

    def ask(self, ref_trx: str, rail: str, amount: int) -> str | None:
        """The code of the refusal, or None where the payout is taken."""
        order = Order(ref_trx, rail, amount, is_worked_on=rail != MANUAL)
        if self.is_disabled:
            return "MERCHANT_SUSPENDED"
        if self.has_payouts_off:
            return "merchant_payout_disabled"
        if ref_trx in self.orders:
            return "DUPLICATE_REFERENCE"
        if self.balance < order.payable:
            return "insufficient_balance"
        if self.is_down and rail != MANUAL:
            return "SERVICE_UNAVAILABLE"
        self.balance -= order.payable
        self.orders[ref_trx] = order
        return None

    @property
    def is_on_hold(self) -> bool:
        """The merchant's unsent payouts wait."""
        return self.is_disabled or self.has_payouts_off

    def change_merchant(self, *, is_disabled: bool, has_payouts_off: bool) -> None:
        was_on_hold = self.is_on_hold
        self.is_disabled, self.has_payouts_off = is_disabled, has_payouts_off
        if was_on_hold and not self.is_on_hold:
            for order in self.orders.values():
                order.number += 1  # a new cause: whoever has just found it on hold looks again

    def claim(self, order: Order) -> int:
        order.number += 1
        order.holder = order.number
        return order.number

    def work(self, order: Order, send: str, is_asked: bool, claim: int) -> None:
        """One step of whoever has this claim. Who dies on the way gives nothing back."""
        self._point("after_claim")
        self._work(order, send, is_asked, claim)
        if order.holder == claim:
            order.holder = None

    def _work(self, order: Order, send: str, is_asked: bool, claim: int) -> None:
        """Sends, or asks and believes only the answer."""
        if self.is_down:
            self._wait(order)
        elif order.status == "pending" and not order.is_begun:
            self._send_first(order, send, claim)
        elif not is_asked:
            self._wait(order)
        elif order.at_provider is None and order.status == "pending":
            if self.is_on_hold:
                self._wait(order)
                return
            if claim != order.holder:
                return  # fenced: another has taken the job
            if not self._send(order, send):
                self._wait(order)
        elif order.at_provider is None:
            self._done(order, claim)
        elif order.at_provider == "processing":
            self._wait(order)
        else:
            self._hear(order, order.at_provider, claim)

    def _send_first(self, order: Order, send: str, claim: int) -> None:
        self._point("before_transfer_is_sent")
        if claim != order.holder or self.is_on_hold:
            return  # fenced, or nothing may leave
        order.is_begun = True
        order.is_old = False  # from now on the provider has a day to answer
        self._point("after_send_is_begun")
        is_answered = self._send(order, send)
        self._point("after_transfer_is_sent")
        _, _, is_refusal = SENDS[send]
        if is_refusal:
            self._end(order, "failed", FAILED)
        elif not is_answered:
            self._wait(order)

    def _send(self, order: Order, send: str) -> bool:
        """True where the provider says that it has taken the transfer on."""
        _, is_taken_on, _ = SENDS[send]
        if is_taken_on:
            assert order.at_provider is None
            self.provider_says(order, "processing")
        return send == "accepted"

    def _hear(self, order: Order, word: str, claim: int) -> None:
        """The provider's own answer, when it was asked, and nothing else decides."""
        match (order.status, word):
            case ("pending", "success"):
                self._end(order, "completed", COMPLETED)
            case ("pending", "failed"):
                self._end(order, "failed", FAILED)
            case ("pending" | "completed", "reversed"):
                self._end(order, "failed", REVERSED)
            case ("completed", "failed") | ("failed", "success"):
                self.cases.add(("contradiction", order.ref_trx))
                self._done(order, claim)
            case _:
                self._doubt(order)
                self._done(order, claim)

    def _end(self, order: Order, status: str, message: str) -> None:
        self._point("between_status_and_refund")
        self._point("before_payout_commit")
        order.status = status
        order.told.append(message)
        self._doubt(order)
        order.is_worked_on = False
        order.holder = None
        if status != "completed":
            self.balance += order.payable
        self._point("after_payout_commit")

    def _doubt(self, order: Order) -> None:
        """What a signed webhook said against what was decided is for a person to look at."""
        against: dict[str, set[str]] = {
            COMPLETED: {"failed", "reversed"},
            FAILED: {"success"},  # what came back was delivered before: then it fits
        }
        if order.webhooks & against.get(order.told[-1], set()):
            self.cases.add(("contradiction", order.ref_trx))

    def _done(self, order: Order, claim: int) -> None:
        """Unless somebody else holds it, or there is a new cause."""
        if claim == order.holder and claim == order.number:
            order.is_worked_on = False

    def _wait(self, order: Order) -> None:
        if order.status == "pending" and order.is_old:
            self.cases.add(("no_answer", order.ref_trx))

    def _point(self, name: str) -> None:
        if name == self.dies_at:
            raise Killed(name)

    def provider_says(self, order: Order, word: str) -> None:
        order.at_provider = word
        order.said.append(word)

    def hook(self, order: Order, word: str) -> None:
        """Every delivery of a webhook makes somebody ask, its copies too."""
        order.webhooks.add(word)
        order.number += 1
        order.is_worked_on = True

    def decide(self, order: Order, status: str) -> bool:
        """By an administrator: payouts processed by hand, and unsent ones on hold; once."""
        if order.status != "pending":
            return False
        if status == "completed":
            is_decided = order.rail == MANUAL and not self.is_on_hold
        else:
            is_unsent = self.is_on_hold and not order.is_begun and order.holder is None
            is_decided = order.rail == MANUAL or is_unsent
        if is_decided:
            self._end(order, status, COMPLETED if status == "completed" else CANCELED)
        return is_decided
