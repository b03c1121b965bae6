"""Event types, the patterns that select them, and the body that endpoints receive."""

from typing import NewType

from manilla.transaction_types import TYPES

# The name of a type of transaction, and its new status or what has happened to it.
EventType = NewType("EventType", str)
# What happens to records that are not transactions.
_OTHERS = {"account": ("active", "failed", "closed")}
_EVENTS = {**{kind.name: kind.events for kind in TYPES}, **_OTHERS}
EVENT_TYPES = tuple(EventType(f"{name}.{event}") for name in _EVENTS for event in _EVENTS[name])

TEST = "endpoint.test"  # sent only to the tested endpoint, and omitted from the list of events
EVERY = "*"
PATTERNS = (EVERY, *(f"{name}.*" for name in _EVENTS), *EVENT_TYPES)


def event_type_of(name: str, event: str) -> EventType:
    """Returns the type of an event. Raises an error if merchants cannot subscribe to it."""
    return EVENT_TYPES[EVENT_TYPES.index(EventType(f"{name}.{event}"))]


def body_for_endpoint(event_type: str, body: bytes) -> bytes:
    """Returns the event's body with the event type as its first key."""
    assert body[:1] == b"{"
    return b'{"type":"%s",' % event_type.encode() + body[1:]
