"""Who acts: bound by the surface that knows, read where a change is written down."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from enum import StrEnum

import msgspec


class ActorKind(StrEnum):
    PERSON = "person"  # signed in, with a number
    COMMAND = "command"  # the operator's command, by the name of its user on the host
    SYSTEM = "system"  # nobody: the program itself


class Actor(msgspec.Struct, frozen=True):
    kind: ActorKind
    id: int | None
    name: str
    realm: str | None = None  # where a person signs in; numbers are of that realm

    def is_same_as(self, other: "Actor") -> bool:
        """People go by their number, since a name can change; the rest by their name."""
        if self.kind is ActorKind.PERSON:
            return (other.kind, other.realm, other.id) == (self.kind, self.realm, self.id)
        return (other.kind, other.name) == (self.kind, self.name)


SYSTEM = Actor(ActorKind.SYSTEM, None, "system")

current: ContextVar[Actor] = ContextVar("actor", default=SYSTEM)
address: ContextVar[str | None] = ContextVar("address", default=None)  # None: no request


@contextlib.contextmanager
def acting(actor: Actor, from_address: str | None = None) -> Iterator[None]:
    """What is changed in here was changed by this actor."""
    tokens = current.set(actor), address.set(from_address)
    try:
        yield
    finally:
        current.reset(tokens[0])
        address.reset(tokens[1])
