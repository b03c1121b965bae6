"""A model of refunds that predicts the result of any sequence of actions.

The model follows the decision records and the rules that all providers share. It uses none of
Manilla's code.
"""

from dataclasses import dataclass

from tests.payouts.model import Killed

PAID = 10_000_000  # the payment's amount in minor units, which the test refunds in parts

# Maps each result of sending to the simulator's fault and two flags.
# The flags show whether the provider has accepted or has definitely rejected the refund.
SENDS: dict[str, tuple[dict[str, object] | None, bool, bool]] = {
    "accepted": (None, True, False),
    "accepted, 5xx": ({"fault": "5xx_after_accept"}, True, False),
    "accepted, reset": ({"fault": "reset_after_accept"}, True, False),
    "lost, 5xx": ({"fault": "5xx_before"}, False, False),
    "lost, reset": ({"fault": "reset"}, False, False),
    "duplicate": ({"fault": "refuse", "status": 400, "message": "Duplicate"}, False, False),
    "refused": ({"fault": "refuse", "status": 400, "message": "Refused"}, False, True),
}
# Crash points within a job, in the order in which the worker reaches them.
POINTS = [
    "before_transfer_is_sent",
    "after_send_is_begun",
    "after_transfer_is_sent",
    "before_refund_commit",
]


@dataclass
class RefundInModel:
    trx_id: str
    amount: int
    status: str = "pending"
    # True if a request may have been sent. A rejection then does not prove that nothing was paid.
    is_sent: bool = False
    is_left: bool = False  # an administrator must decide
    is_quiet: bool = True  # True if the refund was not sent within the last minutes
    is_from_bank: bool = False  # True if an administrator has paid the refund from our bank
    at_provider: str | None = None
    is_worked_on: bool = True  # True while a status query is scheduled
    is_old: bool = False
    # Each claim of the refund's job, and each new request to run the job, increments this number.
    number: int = 0
    holder: int | None = None  # the number of the claim that currently holds the job


class RefundModel:
    def __init__(self, rail: str) -> None:
        self.rail = rail
        self.balance = PAID
        self.refunds: dict[str, RefundInModel] = {}
        self.cases: set[tuple[str, str]] = set()
        self.is_on_hold = False
        self.dies_at: str | None = None

    def start(self, trx_id: str, amount: int) -> None:
        self.balance -= amount
        self.refunds[trx_id] = RefundInModel(trx_id, amount)

    def claim(self, refund: RefundInModel) -> int:
        refund.number += 1
        refund.holder = refund.number
        return refund.number

    def work(self, refund: RefundInModel, send: str, is_asked: bool, claim: int) -> None:
        """Runs one step of the worker that holds this claim. A crashed worker keeps its lease."""
        if refund.status == "pending" and not refund.is_sent and refund.is_left:
            self._done(refund, claim)  # Only an administrator can decide on this refund.
        elif refund.status == "pending" and not refund.is_sent:
            self._send_first(refund, send, claim)
        else:
            self._ask(refund, send, is_asked, claim)
        if refund.holder == claim:
            refund.holder = None

    def _send_first(self, refund: RefundInModel, send: str, claim: int) -> None:
        self._point("before_transfer_is_sent")
        if claim != refund.holder or self.is_on_hold:
            return  # The fence rejects this worker, or the refund is on hold.
        refund.is_sent = True
        refund.is_quiet = False
        refund.is_old = False  # The provider's three days to respond start now.
        self._point("after_send_is_begun")
        if self.rail != "b":
            self._send(refund, send)
        self._point("after_transfer_is_sent")
        if self.rail == "b":
            refund.is_left = True  # Provider B has no refund API, so nothing was sent.
            refund.is_sent = False
        elif SENDS[send][2]:
            self._end(refund, "failed")
        elif send == "accepted" and refund.at_provider == "success":
            self._end(refund, "completed")

    def _send(self, refund: RefundInModel, send: str) -> None:
        if SENDS[send][1]:
            assert refund.at_provider is None, "the refund was sent twice"
            refund.at_provider = "success" if self.rail == "c" else "processing"

    def _ask(self, refund: RefundInModel, send: str, is_asked: bool, claim: int) -> None:
        is_open = refund.status == "pending"
        if self.rail != "a":  # Only provider A has a status query for refunds.
            refund.is_left = refund.is_left or is_open
            self._done(refund, claim)
        elif not is_asked:
            self._wait(refund, "no_answer")
        elif refund.at_provider is None and is_open:
            self._send_again(refund, send, claim)
        elif refund.at_provider in ("success", "failed"):
            self._hear(refund, claim)
        elif is_open:
            self._wait(refund, "still_open")
        elif not refund.is_left:  # A refund that was paid from our bank is queried for some days.
            self._done(refund, claim)

    def _send_again(self, refund: RefundInModel, send: str, claim: int) -> None:
        if refund.is_left or self.is_on_hold:
            self._wait(refund, "no_answer")
        elif claim == refund.holder:
            refund.is_quiet = False
            self._send(refund, send)
            if send != "accepted":
                self._wait(refund, "no_answer")

    def _hear(self, refund: RefundInModel, claim: int) -> None:
        """Applies the response to a status query. Only status queries settle a refund."""
        status = {"success": "completed", "failed": "failed"}[refund.at_provider or ""]
        if refund.status == "pending":
            self._end(refund, status)
            return
        agrees = status == ("failed" if refund.is_from_bank else refund.status)
        if not agrees:
            self.cases.add(("contradiction", refund.trx_id))
        self._done(refund, claim)

    def _end(self, refund: RefundInModel, status: str) -> None:
        self._point("before_refund_commit")
        refund.status = status
        refund.is_worked_on = False
        refund.holder = None
        if status == "failed":
            self.balance += refund.amount

    def _wait(self, refund: RefundInModel, kind: str) -> None:
        if refund.status == "pending" and refund.is_old and refund.is_sent:
            refund.is_left = True
            self.cases.add((kind, refund.trx_id))

    def _done(self, refund: RefundInModel, claim: int) -> None:
        """Finishes the job, unless another worker holds it or a new run was requested."""
        if claim == refund.holder and claim == refund.number:
            refund.is_worked_on = False

    def _point(self, name: str) -> None:
        if name == self.dies_at:
            raise Killed(name)

    def webhook(self, refund: RefundInModel) -> None:
        refund.number += 1
        refund.is_worked_on = True

    def change_merchant(self, *, is_on_hold: bool) -> None:
        if self.is_on_hold and not is_on_hold:
            for refund in self.refunds.values():
                refund.number += 1
        self.is_on_hold = is_on_hold

    def decide(self, refund: RefundInModel, *, is_paid: bool, is_sure: bool) -> bool:
        """Decides on a refund that needs an administrator's decision, or on an unsent, held refund.

        If `is_sure` is set, the administrator has already paid, or has checked that the provider
        does not pay.
        """
        if refund.status != "pending":
            return False
        if not refund.is_left:
            is_decided = not is_paid and self.is_on_hold and not refund.is_sent
            if is_decided:
                self._end(refund, "failed")
            return is_decided
        if refund.holder is not None:
            return False
        refund.number += 1
        refund.is_worked_on = True  # The administrator's claim on the job is released.
        if not (is_paid and is_sure) and not self._is_not_paid(refund, is_sure):
            return False
        refund.is_from_bank = is_paid
        is_sent = refund.is_sent
        self._end(refund, "completed" if is_paid else "failed")
        refund.is_worked_on = is_paid and is_sent
        return True

    def _is_not_paid(self, refund: RefundInModel, is_sure: bool) -> bool:
        """Returns whether the provider reports that it has not paid, or cannot be queried."""
        if not refund.is_sent:
            return True
        says_so = is_sure if self.rail != "a" else refund.at_provider in (None, "failed")
        return says_so and refund.is_quiet
