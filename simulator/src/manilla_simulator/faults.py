"""Defines and applies the faults that a tester can enable for a provider."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import msgspec

FAULTS_MAX = 100
Seconds = Annotated[float, msgspec.Meta(ge=0, le=3600)]
Times = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Lines = Annotated[int, msgspec.Meta(ge=0, le=50)]


class CallName(StrEnum):
    TOKEN = "token"  # noqa: S105
    CHARGE = "charge"
    CHARGE_STATUS = "charge_status"
    ACCOUNT = "account"  # creates a permanent account
    ACCOUNT_STATUS = "account_status"
    ACCOUNT_TRANSFERS = "account_transfers"
    CHARGE_AGAIN = "charge_again"  # charges of saved cards, and debits of mandates
    FORGET_CARD = "forget_card"
    MANDATE = "mandate"
    MANDATE_STATUS = "mandate_status"
    RECIPIENT = "recipient"
    TRANSFER = "transfer"
    APPROVE = "approve"
    TRANSFER_STATUS = "transfer_status"
    REFUND = "refund"
    REFUND_STATUS = "refund_status"
    DISPUTE_LIST = "dispute_list"
    DISPUTE_STATUS = "dispute_status"
    DISPUTE_ANSWER = "dispute_answer"
    EVIDENCE = "evidence"  # uploads of files, and structured evidence
    RESOLVE = "resolve"
    BANKS = "banks"
    BALANCE = "balance"
    FEE = "fee"
    STATEMENT = "statement"
    ANY = "*"


class Fault(StrEnum):
    TIMEOUT_BEFORE = "timeout_before"  # The simulator neither processes the request nor responds.
    # The simulator processes the request, but does not respond.
    TIMEOUT_AFTER_ACCEPT = "timeout_after_accept"
    ERROR_BEFORE = "5xx_before"
    ERROR_AFTER_ACCEPT = "5xx_after_accept"
    RESET = "reset"  # The simulator resets the connection before it processes the request.
    RESET_AFTER_ACCEPT = "reset_after_accept"
    # The simulator processes the request, but its response cannot be parsed.
    GARBAGE_AFTER_ACCEPT = "garbage_after_accept"
    # The simulator does not process the request, and responds with the provider's error.
    REFUSE = "refuse"


AFTER_ACCEPT = frozenset(
    (
        Fault.TIMEOUT_AFTER_ACCEPT,
        Fault.ERROR_AFTER_ACCEPT,
        Fault.RESET_AFTER_ACCEPT,
        Fault.GARBAGE_AFTER_ACCEPT,
    )
)


class NextFault(msgspec.Struct, forbid_unknown_fields=True):
    call: CallName
    fault: Fault
    message: str | None = None
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] | None = None
    times: Times | None = 1  # None means that the fault applies until it is disabled.
    every: Times = 1  # The value 2 means that the fault applies to every second call.
    calls: int = 0  # number of calls so far

    def is_due(self) -> bool:
        """Counts a call, and returns whether the fault applies to this call."""
        self.calls += 1
        return self.calls % self.every == 0


class WebhookMode(StrEnum):
    NORMAL = "normal"
    LOST = "lost"
    DUPLICATE = "duplicate"
    REORDER = "reorder"  # Webhooks are collected for a moment and then sent newest first.
    FORGE = "forge"  # Webhooks are signed with a wrong key.
    HOLD = "hold"  # Webhooks are held until they are released.


class WebhookPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mode: WebhookMode = WebhookMode.NORMAL
    delay_seconds: Seconds = 0
    # the number of copies sent in mode `duplicate`
    copies: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 2


class RefundOutcome(StrEnum):
    SUCCESS = "success"
    FAILED = "failed"
    PENDING = "pending"


class DisputeLie(StrEnum):
    """What a provider reports wrongly about disputes."""

    NONE = "none"
    WEBHOOK_AMOUNT = "webhook_amount"  # Webhooks have another amount.
    WEBHOOK_STATUS = "webhook_status"  # Webhooks report a dispute as decided the other way.
    UNKNOWN_STATUS = "unknown_status"  # Every report has a status that is not documented.
    NO_AMOUNT = "no_amount"  # Responses and lists have no amount.


class Faults(msgspec.Struct, kw_only=True):
    settle_seconds: float
    latency_seconds: float = 0
    outage: bool = False
    next: list[NextFault] = []
    webhooks: WebhookPlan = WebhookPlan()
    refunds: RefundOutcome = RefundOutcome.SUCCESS
    disputes: DisputeLie = DisputeLie.NONE
    # Each page of a provider statement repeats this many lines of the previous page.
    # Real providers repeat lines if new lines are added between two requests.
    statement_overlap: int = 0

    def strike(self, call: str) -> NextFault | None:
        """Returns the fault that applies to this call, or None. Counts the use of the fault."""
        for planned in self.next:
            if planned.call in (call, CallName.ANY) and planned.is_due():
                if planned.times is not None:
                    planned.times -= 1
                    if planned.times == 0:
                        self.next.remove(planned)
                return planned
        return None


class Ending(StrEnum):
    ANSWER = "answer"
    HANG = "hang"
    RESET = "reset"


class Reply(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = "application/json"
    ending: Ending = Ending.ANSWER


OUTAGE = Reply(503, b"<html><h1>503 Service Unavailable</h1></html>\n", "text/html")
BROKEN = b"<html><h1>Bad gateway</h1></html>\n"
SILENCE = Reply(0, b"", ending=Ending.HANG)
BREAK = Reply(0, b"", ending=Ending.RESET)


def meet(
    planned: NextFault, handle: Callable[[], Reply], deny: Callable[[int | None, str], Reply]
) -> Reply:
    """Applies the fault and returns the response. Runs `handle` first if the call is accepted."""
    if planned.fault is Fault.REFUSE:
        return deny(planned.status, planned.message or "Request refused")
    reply = handle() if planned.fault in AFTER_ACCEPT else None
    match planned.fault:
        case Fault.TIMEOUT_BEFORE | Fault.TIMEOUT_AFTER_ACCEPT:
            return SILENCE
        case Fault.RESET | Fault.RESET_AFTER_ACCEPT:
            return BREAK
        case Fault.ERROR_BEFORE | Fault.ERROR_AFTER_ACCEPT:
            return _broken(planned, deny)
    assert reply is not None
    return Reply(reply.status, reply.body[: len(reply.body) // 2])


def _broken(planned: NextFault, deny: Callable[[int | None, str], Reply]) -> Reply:
    """Returns a gateway's error page, or the provider's error if the fault has a message."""
    status = planned.status or 502
    if planned.message is not None:
        return deny(status, planned.message)
    return Reply(status, BROKEN, "text/html")
