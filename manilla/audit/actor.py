"""The current actor, which is set when a request or command starts and stored in audit entries."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from enum import StrEnum

import msgspec


class ActorKind(StrEnum):
    PERSON = "person"  # a signed-in user
    COMMAND = "command"  # a change made on the command line, with the operating system user's name
    SYSTEM = "system"  # a change made by Manilla itself, for example by a worker


class Actor(msgspec.Struct, frozen=True):
    kind: ActorKind
    id: int | None
    name: str
    realm: str | None = None  # the user's realm

    @property
    def public_name(self) -> str:
        """The actor's name as shown to merchants. An administrator is shown as the operator."""
        if self.realm == "console":
            return "The platform's operator"
        if self.kind is ActorKind.PERSON or self == API:
            return self.name
        return f"The platform's operator ({self.name})"

    def is_same_as(self, other: "Actor") -> bool:
        """Whether both are the same actor. Users are compared by id, because names can change."""
        if self.kind is ActorKind.PERSON:
            return (other.kind, other.realm, other.id) == (self.kind, self.realm, self.id)
        return (other.kind, other.name) == (self.kind, self.name)


SYSTEM = Actor(ActorKind.SYSTEM, None, "system")
API = Actor(ActorKind.SYSTEM, None, "API")  # a merchant's own system

current: ContextVar[Actor] = ContextVar("actor", default=SYSTEM)
# The client's IP address, or None outside of requests.
address: ContextVar[str | None] = ContextVar("address", default=None)
# Whether the user must confirm their identity before the current request may make changes.
is_unconfirmed: ContextVar[bool] = ContextVar("is_unconfirmed", default=False)


@contextlib.contextmanager
def acting(actor: Actor, from_address: str | None = None) -> Iterator[None]:
    """Attributes all changes in this block to the actor."""
    tokens = current.set(actor), address.set(from_address), is_unconfirmed.set(False)
    try:
        yield
    finally:
        current.reset(tokens[0])
        address.reset(tokens[1])
        is_unconfirmed.reset(tokens[2])
