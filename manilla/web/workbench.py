"""What the explorer needs of whoever can make a call of the API: handed in from above."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec


class Parameter(msgspec.Struct, frozen=True):
    """A part of the path or of the query."""

    name: str
    is_required: bool
    description: str


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that can be tried out."""

    id: str
    title: str
    group: str
    method: str
    path: str
    documentation: str  # its address
    parameters: Sequence[Parameter]
    example: Mapping[str, Any] | None  # of a body; none where it takes none
    is_repeatable: bool


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to be sent."""

    tool: Tool
    merchant_id: int
    merchant_key: str
    address: str  # where they are: for the rate limit, and the log of requests
    parameters: Mapping[str, str]
    body: str = ""
    idempotency_key: str = ""
    scenario: str = ""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent, byte for byte, and what came back."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    signed: str
    body: str
    status: int
    answer_headers: Sequence[tuple[str, str]]
    answer: str
    trx_id: str | None  # of the transaction that it made


class Workbench(Protocol):
    @property
    def tools(self) -> Sequence[Tool]: ...

    async def send(self, attempt: Attempt) -> Exchange: ...
