"""A scripted Paystack API that returns chosen responses and checks requests against our schemas."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jsonschema_rs

from manilla.ledger import trx_ids
from tests.providers.scripted import Recorded, Scripted, answering
from tests.simulator import examples

HERE = Path(__file__).parent
SCHEMAS: dict[str, Any] = json.loads((HERE / "schemas.json").read_text())
TRX_ID = trx_ids.new(1)
REFERENCE = TRX_ID.lower()


def example(name: str, origin: str = "documented", /, **changes: Any) -> Any:
    """Returns a sample response. The given values replace values in its `data`."""
    document = examples.example("paystack", name, origin, REFERENCE=REFERENCE)
    if changes:
        document["data"] |= changes
    return document


def refusal(message: str, **more: Any) -> Any:
    return {"status": False, "message": message, **more}


class PaystackServer:
    """Responds by method and path. If a call has several responses, they are sent in order."""

    def __init__(self, scripted: Scripted) -> None:
        self._scripted = scripted
        self._answers: dict[str, list[tuple[int, Any]]] = {}
        scripted.behaviour = self._behave

    def on(self, call: str, *answers: Any, status: int = 200) -> None:
        """Sets the responses to a call. The last response is repeated."""
        self._answers[call] = [
            each if isinstance(each, tuple) else (status, each) for each in answers
        ]

    async def _behave(self, writer: asyncio.StreamWriter) -> None:
        queue = self._answers[_call(self._scripted.recorded[-1])]
        status, document = queue.pop(0) if len(queue) > 1 else queue[0]
        await answering(status, document)(writer)

    @property
    def recorded(self) -> list[Recorded]:
        return self._scripted.recorded

    @property
    def calls(self) -> list[str]:
        return [_call(each) for each in self.recorded]

    def assert_requests_are_documented(self) -> None:
        for each in self.recorded:
            template = re.sub(r"(verify)/[^/]+$", r"\1/{reference}", _call(each))
            template = re.sub(r"/(refund|dispute)/\w+(/|$)", r"/\1/{id}\2", template)
            given = each.json if each.body else query(each)
            validator = jsonschema_rs.Draft202012Validator(SCHEMAS[template], validate_formats=True)
            problems = [error.message for error in validator.iter_errors(given)]
            assert not problems, (template, problems)


def _call(request: Recorded) -> str:
    return f"{request.method} {urlsplit(request.target).path}"


def query(request: Recorded) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(request.target).query))
