"""Defines the API endpoints, for request handling and for the OpenAPI document."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec

from manilla.kit.errors import Refusal
from manilla.kit.ratelimit import RateTicket
from manilla.ledger.idempotency import Replayed
from manilla.ledger.scope import Tenant
from manilla.merchants import rights
from manilla.merchants.directory import Caller
from manilla.merchants.rights import Right

PARAMETER = re.compile(r"\{(\w+)\}")  # a parameter in an endpoint's URL path


async def _nothing_to_check() -> None:
    pass


async def _replay_as_stored(
    _tenant: Tenant, _parameter: str, first: Replayed, _api_key: int | None
) -> Any:
    return first


class Call(msgspec.Struct, frozen=True):
    """An authenticated and validated API request, which a use case executes."""

    caller: Caller
    path: str
    parameters: tuple[str, ...]  # the values of the path parameters
    query: Any
    body: Any
    raw_body: bytes
    headers: Mapping[bytes, bytes]  # contains only the headers that the API uses
    ticket: RateTicket
    api_key: int | None = None  # the additional API key, or None for the main key
    # Called by a use case after it has waited, to check the API key and its permissions again.
    check_again: Callable[[], Awaitable[None]] = _nothing_to_check

    @property
    def parameter(self) -> str:
        """The value of the first path parameter, or an empty string."""
        return self.parameters[0] if self.parameters else ""

    @property
    def tenant(self) -> Tenant:
        """The merchant and environment whose data the request may access."""
        return Tenant(self.caller.merchant_id, self.caller.environment)


class FileAnswer(msgspec.Struct, frozen=True):
    """A response whose body is a file and not JSON."""

    media_type: str
    content: bytes


class Upload(msgspec.Struct, frozen=True):
    """An endpoint's multipart body with one file, which can be larger than other bodies."""

    field: str  # the name of the form's field
    bytes_max: int  # of the whole body
    too_large: Callable[[], Refusal]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An API endpoint: its method, path, required permission, fields and use case."""

    method: str
    # Ends with parameters as in `/{name}`, `/{name}/action` or `/{name}/parts/{part}`, or has none.
    path: str
    # The operation's id in the OpenAPI document, or None to derive it from the path.
    operation_id: str | None = None
    summary: str
    description: str
    right: Right | None  # the permission that the API key must have, or None
    answers: tuple[type[msgspec.Struct], ...]  # possible types of the response body
    use_case: Callable[[Call], Awaitable[msgspec.Struct]]
    files: tuple[str, ...] = ()  # the media types of the files that it can return instead
    # Whether the use case itself counts the request toward the rate limit, which saves a query.
    counts: bool = False
    is_repeatable: bool = False  # accepts the header Idempotency-Key
    # Builds the response to a repeated request from what was stored, which contains no secret.
    # Another API key can send the same request, so the function gets the key's number.
    replay: Callable[[Tenant, str, Replayed, int | None], Awaitable[msgspec.Struct]] = (
        _replay_as_stored
    )
    # Whether it creates a transaction: accepts X-Sandbox-Scenario and returns X-Transaction-Id.
    creates_transaction: bool = False
    is_signed: bool = True  # False for the legacy API, which uses bearer tokens
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    upload: Upload | None = None  # takes a multipart body, which the use case parses
    refusals: tuple[type[Refusal], ...] = ()

    def check_right(self, held: Collection[Right]) -> None:
        """Rejects an API key without the required permission."""
        rights.check(held, self.right)
