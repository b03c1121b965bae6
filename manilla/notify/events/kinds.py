"""Event types, the patterns that select them, and the body that endpoints receive."""

from enum import StrEnum


class EventType(StrEnum):
    PAYMENT_PENDING = "payment.pending"
    PAYMENT_SUCCESS = "payment.success"
    PAYMENT_FAILED = "payment.failed"
    PAYOUT_PENDING = "payout.pending"
    PAYOUT_COMPLETED = "payout.completed"
    PAYOUT_FAILED = "payout.failed"
    PAYOUT_CANCELED = "payout.canceled"
    PAYOUT_REVERSED = "payout.reversed"
    REFUND_PENDING = "refund.pending"
    REFUND_COMPLETED = "refund.completed"
    REFUND_FAILED = "refund.failed"


TEST = "endpoint.test"  # sent only to the tested endpoint, and omitted from the list of events
EVERY = "*"
PATTERNS = (
    EVERY,
    *(f"{kind}.*" for kind in ("payment", "payout", "refund")),
    *(str(each) for each in EventType),
)


def body_for_endpoint(event_type: str, body: bytes) -> bytes:
    """Returns the event's body with the event type as its first key."""
    assert body[:1] == b"{"
    return b'{"type":"%s",' % event_type.encode() + body[1:]
