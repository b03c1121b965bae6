"""A model of payouts that predicts the result of any sequence of actions.

The model follows the decision records on payouts and the rules that all providers share. It uses
none of Manilla's code.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.payouts.payout_merchant import MANUAL

FEE_FIXED, FEE_PERCENT = "25", "1.5"
AT_FIRST, MIDDLING = 1_500_000, 150_000

# Maps each result of sending to the simulator's fault and two flags.
# The flags show whether the provider has accepted or has definitely rejected the transfer.
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
# Crash points within a job, in the order in which the worker reaches them.
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
    """Returns the fee in minor units: 25.00 plus 1.5 %, rounded half up."""
    return 2500 + (amount * 15 + 500) // 1000


class Killed(BaseException):
    """Simulates a killed process. No error handler may catch this exception."""


@dataclass
class Order:
    ref_trx: str
    rail: str
    amount: int
    status: str = "pending"
    notified: list[str] = field(default_factory=list)
    # True if a request may have been sent. A rejection then does not prove that nothing was paid.
    is_begun: bool = False
    at_provider: str | None = None
    # The statuses that the provider has reported, in chronological order.
    said: list[str] = field(default_factory=list)
    webhooks: set[str] = field(default_factory=set)
    recent_webhooks: set[str] = field(default_factory=set)  # cleared when a day passes
    is_worked_on: bool = True  # True while a status query is scheduled
    is_old: bool = False
    # Each claim of the payout's job, and each new request to run the job, increments this number.
    number: int = 0
    holder: int | None = None  # the number of the claim that currently holds the job

    @property
    def payable(self) -> int:
        return self.amount + fee_of(self.amount)


class Model:
    """The expected state of one merchant, as plain dictionaries and integers."""

    def __init__(self) -> None:
        self.balance = 0
        self.orders: dict[str, Order] = {}
        self.cases: set[tuple[str, str]] = set()
        self.is_down = False
        self.is_disabled = False
        self.has_payouts_off = False
        self.dies_at: str | None = None

    def ask(self, ref_trx: str, rail: str, amount: int) -> str | None:
        """Requests a payout. Returns the expected error code, or None if the payout is accepted."""
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
        return self.is_disabled or self.has_payouts_off

    def change_merchant(self, *, is_disabled: bool, has_payouts_off: bool) -> None:
        was_on_hold = self.is_on_hold
        self.is_disabled, self.has_payouts_off = is_disabled, has_payouts_off
        if was_on_hold and not self.is_on_hold:
            for order in self.orders.values():
                # A worker that saw the hold just before it ended must check the payout again.
                order.number += 1

    def claim(self, order: Order) -> int:
        order.number += 1
        order.holder = order.number
        return order.number

    def work(self, order: Order, send: str, is_asked: bool, claim: int) -> None:
        """Runs one step of the worker that holds this claim. A crashed worker keeps its lease."""
        self._point("after_claim")
        self._work(order, send, is_asked, claim)
        if order.holder == claim:
            order.holder = None

    def _work(self, order: Order, send: str, is_asked: bool, claim: int) -> None:
        """Sends the transfer if it was never sent. Otherwise queries its status and applies it."""
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
                return  # The fence rejects this worker, because another worker has claimed the job.
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
            return  # The fence rejects this worker, or the payout is on hold.
        order.is_begun = True
        order.is_old = False  # The provider's 24 hours to respond start now.
        self._point("after_send_is_begun")
        is_answered = self._send(order, send)
        self._point("after_transfer_is_sent")
        _, _, is_refusal = SENDS[send]
        if is_refusal:
            self._end(order, "failed", FAILED)
        elif not is_answered:
            self._wait(order)

    def _send(self, order: Order, send: str) -> bool:
        """Sends the transfer. Returns True if the provider's response accepts the transfer."""
        _, is_taken_on, _ = SENDS[send]
        if is_taken_on:
            assert order.at_provider is None
            self.provider_says(order, "processing")
        return send == "accepted"

    def _hear(self, order: Order, word: str, claim: int) -> None:
        """Applies the response to a status query. Only status queries settle a payout."""
        match (order.status, word):
            case ("pending", "success"):
                self._end(order, "completed", COMPLETED)
            case ("pending", "failed") if "success" in order.recent_webhooks:
                # The provider is queried again, because its response may be older than the webhook.
                pass
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
        order.notified.append(message)
        self._doubt(order)
        order.is_worked_on = False
        order.holder = None
        if status != "completed":
            self.balance += order.payable
        self._point("after_payout_commit")

    def _doubt(self, order: Order) -> None:
        """Opens a case if a signed webhook contradicts the outcome."""
        against: dict[str, set[str]] = {
            COMPLETED: {"failed", "reversed"},
            # A `reversed` webhook is no contradiction: the transfer was delivered first.
            FAILED: {"success"},
        }
        if order.webhooks & against.get(order.notified[-1], set()):
            self.cases.add(("contradiction", order.ref_trx))

    def _done(self, order: Order, claim: int) -> None:
        """Finishes the job, unless another worker holds it or a new run was requested."""
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
        """Receives a webhook. Every delivery, including a duplicate, schedules a status query."""
        order.webhooks.add(word)
        order.recent_webhooks.add(word)
        order.number += 1
        order.is_worked_on = True

    def decide(self, order: Order, status: str) -> bool:
        """Decides on a manual or held payout. Returns whether a decision is possible."""
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
