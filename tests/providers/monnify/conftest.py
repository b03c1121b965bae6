import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema_rs
import pytest

from manilla.kit.http_client.client import HttpClient
from manilla.providers.health import Rail
from manilla.providers.kind import AdapterContext, Credentials
from manilla.providers.kinds.monnify import KIND
from manilla.providers.kinds.monnify.adapter import Monnify
from manilla.providers.port import Direction
from tests.providers.monnify import schemas
from tests.providers.monnify.samples import DOCUMENTED, ok
from tests.providers.scripted import Behaviour, Recorded, Scripted, answering

LOGIN = "/api/v1/auth/login"
KEYS = {
    "api_key": "MK_PROD_1",
    "secret_key": "m-secret",
    "contract_code": "1234567890",
    "source_account_number": "8012345678",
}


class ScriptedMonnify:
    """The scripted server. Its login succeeds unless a test changes it."""

    def __init__(self, server: Scripted) -> None:
        self.server = server
        self.login: Behaviour = answering(200, ok(DOCUMENTED["login"]))
        self.behaviour: Behaviour = answering(500, {})
        self.by_path: dict[str, Behaviour] = {}
        server.behaviour = self._behave

    async def _behave(self, writer: asyncio.StreamWriter) -> None:
        path = urlsplit(self.server.recorded[-1].target).path
        behaviour = self.login if path == LOGIN else self.by_path.get(path, self.behaviour)
        await behaviour(writer)

    def answers(self, status: int, document: Any) -> None:
        self.behaviour = answering(status, document)

    @property
    def logins(self) -> list[Recorded]:
        return [each for each in self.server.recorded if each.target == LOGIN]

    @property
    def calls(self) -> list[Recorded]:
        return [each for each in self.server.recorded if each.target != LOGIN]


def check_request(call: Recorded) -> None:
    parts = urlsplit(call.target)
    if call.method == "POST":
        assert not parts.query
        assert call.headers["content-type"] == "application/json"
        schema = schemas.BODIES[parts.path]
        jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(call.json)
    else:
        path = re.sub(r"^/api/v1/refunds/[^/]+$", "/api/v1/refunds/{reference}", parts.path)
        assert (call.method, call.body) == ("GET", b"")
        assert set(parse_qs(parts.query, keep_blank_values=True)) == schemas.QUERIES[path]


@pytest.fixture
async def monnify_server(server: Scripted) -> AsyncIterator[ScriptedMonnify]:
    running = ScriptedMonnify(server)
    yield running
    for call in running.calls:
        check_request(call)


def build(client: HttpClient, url: str, **more: str) -> Monnify:
    current = Credentials("monnify", KIND, {**KEYS, "base_url": url, **more})
    tripped = asyncio.Event()
    pay_in, pay_out = (Rail("monnify", direction, tripped) for direction in Direction)
    return Monnify(AdapterContext(current, pay_in, pay_out, client, asyncio.Semaphore(64)))


@pytest.fixture
def monnify(client: HttpClient, monnify_server: ScriptedMonnify) -> Monnify:
    return build(client, monnify_server.server.url)


def reset(each: Monnify) -> None:
    """Closes the circuit breakers, so that every call is sent."""
    each._pay_in.rail.reset()
    each._pay_out.rail.reset()
