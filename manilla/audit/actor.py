"""The current actor: set when a request or command starts, read when a change is logged."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from enum import StrEnum

import msgspec


class ActorKind(StrEnum):
    PERSON = "person"  # a signed-in user
    COMMAND = "command"  # the CLI; the actor's name is the operating system user's
    SYSTEM = "system"  # Manilla itself, such as a worker


class Actor(msgspec.Struct, frozen=True):
    kind: ActorKind
    id: int | None
    name: str
    realm: str | None = None  # the user's realm, because user ids are unique only within a realm

    @property
    def public_name(self) -> str:
        """The actor's name as merchants see it: an administrator appears only as the operator."""
        if self.realm == "console":
            return "The platform's operator"
        if self.kind is ActorKind.PERSON or self == API:
            return self.name
        return f"The platform's operator ({self.name})"

    def is_same_as(self, other: "Actor") -> bool:
        """Compares users by id, because names can change. Compares other actors by name."""
        if self.kind is ActorKind.PERSON:
            return (other.kind, other.realm, other.id) == (self.kind, self.realm, self.id)
        return (other.kind, other.name) == (self.kind, self.name)


SYSTEM = Actor(ActorKind.SYSTEM, None, "system")
API = Actor(ActorKind.SYSTEM, None, "API")  # a merchant's own system

current: ContextVar[Actor] = ContextVar("actor", default=SYSTEM)
# The client's IP address; None outside of requests.
address: ContextVar[str | None] = ContextVar("address", default=None)
# Whether the user must confirm their identity before the current request may change anything.
is_unconfirmed: ContextVar[bool] = ContextVar("is_unconfirmed", default=False)


@contextlib.contextmanager
def acting(actor: Actor, from_address: str | None = None) -> Iterator[None]:
    """Attributes all changes that are made in this block to the actor."""
    tokens = current.set(actor), address.set(from_address), is_unconfirmed.set(False)
    try:
        yield
    finally:
        current.reset(tokens[0])
        address.reset(tokens[1])
        is_unconfirmed.reset(tokens[2])
