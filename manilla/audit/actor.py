"""The current actor: set where a request or command starts, read when a change is logged."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from enum import StrEnum

import msgspec


class ActorKind(StrEnum):
    PERSON = "person"  # a signed-in user
    COMMAND = "command"  # the CLI, with the name of the operating system user
    SYSTEM = "system"  # the program itself


class Actor(msgspec.Struct, frozen=True):
    kind: ActorKind
    id: int | None
    name: str
    realm: str | None = None  # realm of the user; ids are unique only within a realm

    def is_same_as(self, other: "Actor") -> bool:
        """Compares users by id, because names can change, and other actors by name."""
        if self.kind is ActorKind.PERSON:
            return (other.kind, other.realm, other.id) == (self.kind, self.realm, self.id)
        return (other.kind, other.name) == (self.kind, self.name)


SYSTEM = Actor(ActorKind.SYSTEM, None, "system")

current: ContextVar[Actor] = ContextVar("actor", default=SYSTEM)
address: ContextVar[str | None] = ContextVar("address", default=None)  # None outside of requests


@contextlib.contextmanager
def acting(actor: Actor, from_address: str | None = None) -> Iterator[None]:
    """Attributes all changes in this block to the actor."""
    tokens = current.set(actor), address.set(from_address)
    try:
        yield
    finally:
        current.reset(tokens[0])
        address.reset(tokens[1])
