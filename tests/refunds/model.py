"""A model of refunds in plain arithmetic: their expected outcomes, whatever happens.

It follows the decision records and the rules that all providers share, and uses no product code.
"""

from dataclasses import dataclass

from tests.payouts.model import Killed

PAID = 10_000_000  # minor units of the payment that is refunded in parts

# Results of a send: the simulator's fault, whether the provider then has the refund, and whether
# its response is a conclusive refusal.
SENDS: dict[str, tuple[dict[str, object] | None, bool, bool]] = {
    "accepted": (None, True, False),
    "accepted, 5xx": ({"fault": "5xx_after_accept"}, True, False),
    "accepted, reset": ({"fault": "reset_after_accept"}, True, False),
    "lost, 5xx": ({"fault": "5xx_before"}, False, False),
    "lost, reset": ({"fault": "reset"}, False, False),
    "duplicate": ({"fault": "refuse", "status": 400, "message": "Duplicate"}, False, False),
    "refused": ({"fault": "refuse", "status": 400, "message": "Refused"}, False, True),
}
# Crash points within a job, in the order in which it reaches them.
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
    is_sent: bool = False  # a send may have started, so no refusal is conclusive
    is_left: bool = False  # to an administrator
    at_provider: str | None = None
    is_worked_on: bool = True  # a status query is still planned
    is_old: bool = False
    number: int = 0  # raised by each claim of its job, and by each new cause for it
    holder: int | None = None  # the number of the claim that holds it


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
        """One step of the worker with this claim. A crash releases nothing."""
        if refund.status == "pending" and not refund.is_sent:
            self._send_first(refund, send, claim)
        else:
            self._ask(refund, send, is_asked, claim)
        if refund.holder == claim:
            refund.holder = None

    def _send_first(self, refund: RefundInModel, send: str, claim: int) -> None:
        self._point("before_transfer_is_sent")
        if claim != refund.holder or self.is_on_hold or refund.is_left:
            return  # fenced, or nothing may leave
        refund.is_sent = True
        refund.is_old = False  # from now on the provider has three days to answer
        self._point("after_send_is_begun")
        if self.rail != "b":
            self._send(refund, send)
        self._point("after_transfer_is_sent")
        if self.rail == "b":
            refund.is_left = True  # it has no refunds
        elif SENDS[send][2]:
            self._end(refund, "failed")
        elif send == "accepted" and refund.at_provider == "success":
            self._end(refund, "completed")

    def _send(self, refund: RefundInModel, send: str) -> None:
        if SENDS[send][1]:
            assert refund.at_provider is None, "it was sent twice"
            refund.at_provider = "success" if self.rail == "c" else "processing"

    def _ask(self, refund: RefundInModel, send: str, is_asked: bool, claim: int) -> None:
        is_open = refund.status == "pending"
        if self.rail != "a":  # it has no status query
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
        else:
            self._done(refund, claim)

    def _send_again(self, refund: RefundInModel, send: str, claim: int) -> None:
        if refund.is_left:
            return
        if self.is_on_hold:
            self._wait(refund, "no_answer")
        elif claim == refund.holder:
            self._send(refund, send)
            if send != "accepted":
                self._wait(refund, "no_answer")

    def _hear(self, refund: RefundInModel, claim: int) -> None:
        """Only the provider's own answer to a query decides."""
        status = {"success": "completed", "failed": "failed"}[refund.at_provider or ""]
        if refund.status == "pending":
            self._end(refund, status)
            return
        if refund.status != status:
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
        """Unless another worker holds the job, or there is a new cause."""
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

    def decide(self, refund: RefundInModel, *, is_paid: bool) -> bool:
        """By an administrator: refunds that were left to them, and unsent ones on hold; once."""
        may_reject = not is_paid and self.is_on_hold and not refund.is_sent
        if refund.status != "pending" or not (refund.is_left or may_reject):
            return False
        self._end(refund, "completed" if is_paid else "failed")
        return True
