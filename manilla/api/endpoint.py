"""The description of an API endpoint, which the kernel and the OpenAPI document use."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from manilla.kit.errors import Refusal
from manilla.kit.ratelimit import RateTicket
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.merchants.rights import Right

PARAMETER = re.compile(r"\{(\w+)\}")  # a path parameter in an endpoint's path


async def _nothing_to_check() -> None:
    pass


class Call(msgspec.Struct, frozen=True):
    """The input of a use case: the authenticated caller and the validated request."""

    caller: Caller
    parameter: str  # value of the path parameter, or empty
    query: Any
    body: Any
    raw_body: bytes
    headers: Mapping[bytes, bytes]  # only the request headers that the kernel reads
    ticket: RateTicket
    api_key: int | None = None  # number of the additional API key, or None for the main key
    # Checks the API key and its rights again. A use case calls it after it has waited.
    check_again: Callable[[], Awaitable[None]] = _nothing_to_check

    @property
    def tenant(self) -> Tenant:
        """The merchant and environment. The call may access only their data."""
        return Tenant(self.caller.merchant_id, self.caller.environment)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A row in the table of API endpoints."""

    method: str
    path: str  # URL path; one of the last two segments may be a path parameter, `{name}`
    # The operation's name in the OpenAPI document. None to derive it from the path.
    operation_id: str | None = None
    summary: str
    description: str
    right: Right | None  # the right that an API key needs, or None if it needs no right
    answers: tuple[type[msgspec.Struct], ...]  # the types of a successful response's body
    use_case: Callable[[Call], Awaitable[msgspec.Struct]]
    # True if the use case counts the request toward the rate limit, in an SQL statement that it
    # runs anyway. If the use case rejects the request earlier, the kernel counts it.
    counts: bool = False
    is_repeatable: bool = False  # the endpoint accepts Idempotency-Key and X-Sandbox-Scenario
    is_signed: bool = True  # False for the legacy API, which uses a bearer token and no signature
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    refusals: tuple[type[Refusal], ...] = ()
