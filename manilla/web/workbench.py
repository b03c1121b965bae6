"""The interface that the API explorer uses to send API calls; implemented by the API package."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec


class Parameter(msgspec.Struct, frozen=True):
    """A path or query parameter."""

    name: str
    is_required: bool
    description: str


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of the explorer."""

    id: str
    title: str
    group: str
    method: str
    path: str
    documentation: str  # URL of its documentation
    parameters: Sequence[Parameter]
    example: Mapping[str, Any] | None  # example body; None if the endpoint takes no body
    is_repeatable: bool


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The request that the user wants to send."""

    tool: Tool
    merchant_id: int
    merchant_key: str
    address: str  # the user's IP address, for the rate limit and the request log
    parameters: Mapping[str, str]
    body: str = ""
    idempotency_key: str = ""
    scenario: str = ""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """The exact request that was sent, and its response."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    signed: str
    body: str
    status: int
    answer_headers: Sequence[tuple[str, str]]
    answer: str
    trx_id: str | None  # id of the created transaction


class Workbench(Protocol):
    @property
    def tools(self) -> Sequence[Tool]: ...

    async def send(self, attempt: Attempt) -> Exchange: ...
