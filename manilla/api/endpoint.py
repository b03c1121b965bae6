"""Describes the merchant API's endpoints. The kernel and the OpenAPI document use this table."""

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
    """The input of a use case: an authenticated caller and a request whose fields are valid."""

    caller: Caller
    parameter: str  # value of the path parameter, if the endpoint has one
    query: Any
    body: Any
    raw_body: bytes
    headers: Mapping[bytes, bytes]  # only the request headers that the kernel reads
    ticket: RateTicket
    api_key: int | None = None  # number of the additional API key that was used, if any
    # Checks key and permissions again. A use case that waits calls it before it reads more.
    check_again: Callable[[], Awaitable[None]] = _nothing_to_check

    @property
    def tenant(self) -> Tenant:
        """The merchant and the environment whose data alone the call may read or change."""
        return Tenant(self.caller.merchant_id, self.caller.environment)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of endpoints."""

    method: str
    path: str  # URL path; the last segment or the one before may be a path parameter, `{name}`
    # The name in the OpenAPI document; None: the words of the path.
    operation_id: str | None = None
    summary: str
    description: str
    right: Right | None  # what the API key must be allowed to do; None: every key may call it
    answers: tuple[type[msgspec.Struct], ...]  # the possible bodies of a successful response
    use_case: Callable[[Call], Awaitable[msgspec.Struct]]
    # True if the use case counts the request toward the rate limit, as part of a statement that it
    # runs anyway. If the use case rejects the request before that statement, the kernel counts it.
    counts: bool = False
    is_repeatable: bool = False  # the endpoint accepts Idempotency-Key and X-Sandbox-Scenario
    is_signed: bool = True  # False for the legacy API, which uses a bearer token and no signature
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    refusals: tuple[type[Refusal], ...] = ()
