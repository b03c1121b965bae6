"""An endpoint of the merchant API; the kernel and the OpenAPI document are built from them."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from manilla.kit.errors import Refusal
from manilla.kit.ratelimit import RateTicket
from manilla.merchants.directory import Caller


class Call(msgspec.Struct, frozen=True):
    """The input of a use case: an authenticated caller, and a request with valid fields."""

    caller: Caller
    parameter: str  # the last segment of the path, if the endpoint has a path parameter
    query: Any
    body: Any
    raw_body: bytes
    headers: Mapping[bytes, bytes]  # only those that the kernel reads
    ticket: RateTicket


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the endpoint table."""

    method: str
    path: str  # may end in {name}
    summary: str
    description: str
    answers: tuple[type[msgspec.Struct], ...]  # the possible bodies of a successful response
    use_case: Callable[[Call], Awaitable[msgspec.Struct]]
    # Whether the use case counts the request towards the rate limit, in a statement that it runs
    # anyway. The kernel counts requests that the use case rejects before that statement.
    counts: bool = False
    is_repeatable: bool = False  # accepts Idempotency-Key and X-Sandbox-Scenario
    is_signed: bool = True  # False for the legacy API, which uses a bearer token and no signature
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    refusals: tuple[type[Refusal], ...] = ()
