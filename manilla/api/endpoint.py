"""An endpoint of the merchants' API, as a row of the table that it is served and described from."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from manilla.kit.errors import Refusal
from manilla.kit.ratelimit import Ticket
from manilla.merchants.directory import Caller


class Call(msgspec.Struct, frozen=True):
    """What a use case is given: a caller who may ask, and what was asked, checked for its form."""

    caller: Caller
    parameter: str  # the last part of the path, where the endpoint has one
    query: Any
    body: Any
    raw_body: bytes
    headers: Mapping[bytes, bytes]  # of those that the kernel reads
    ticket: Ticket


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table that both the kernel and the API's description are made from."""

    method: str
    path: str  # may end in {name}
    summary: str
    description: str
    answers: tuple[type[msgspec.Struct], ...]  # what success can look like
    use_case: Callable[[Call], Awaitable[msgspec.Struct]]
    # Whether the use case counts the request for the rate limit, in a statement that it needs
    # anyway. What it refuses before that statement, the kernel counts.
    counts: bool = False
    is_repeatable: bool = False  # takes Idempotency-Key, and X-Sandbox-Scenario
    is_signed: bool = True  # False: of the older API, which knows a bearer token and no signature
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    refusals: tuple[type[Refusal], ...] = ()
