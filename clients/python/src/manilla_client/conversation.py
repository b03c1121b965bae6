"""The steps of one API call, from the first attempt to the result, without any I/O.

The synchronous and asynchronous clients perform the steps: they send requests and wait.
"""

import time
from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from manilla_client import exact_json
from manilla_client.calls import Call
from manilla_client.credentials import Credentials
from manilla_client.errors import ApiError, NoAnswer, refusal_class
from manilla_client.retries import RETRIED_STATUSES, Retries
from manilla_client.transport import Answer, Failure, Request

Kind = TypeVar("Kind")
Wait = float
Conversation: TypeAlias = Generator[Request | Wait, Answer | Failure | None, Kind]


def converse(call: Call[Kind], credentials: Credentials, retries: Retries) -> Conversation[Kind]:
    attempts = 0
    while True:
        attempts += 1
        outcome = yield signed(call, credentials)
        assert isinstance(outcome, Answer | Failure)
        if isinstance(outcome, Answer) and outcome.status == 200:
            try:
                document = exact_json.loads(outcome.body)
            except ValueError as error:
                outcome = Failure(f"The response cannot be parsed: {error}.")
            else:
                return call.read(document)
        wait_seconds = None
        if may_be_repeated(outcome):
            wait_seconds = retries.wait_seconds(attempts, retry_after_seconds(outcome))
        if wait_seconds is None:
            raise error_of(outcome, call.idempotency_key)
        yield wait_seconds


def signed(call: Call[Any], credentials: Credentials) -> Request:
    """Returns the signed request. Each attempt gets a new signature, because signatures expire."""
    signed = credentials.headers(int(time.time()), call.method, call.target, call.body)
    return Request(call.method, call.target, {**call.headers(), **signed}, call.body)


def may_be_repeated(outcome: Answer | Failure) -> bool:
    if isinstance(outcome, Failure):
        return not outcome.is_final
    return outcome.status in RETRIED_STATUSES


def retry_after_seconds(outcome: Answer | Failure) -> int | None:
    given = outcome.headers.get("retry-after", "") if isinstance(outcome, Answer) else ""
    return int(given) if given.isascii() and given.isdigit() and len(given) <= 9 else None


def error_of(outcome: Answer | Failure, idempotency_key: str | None) -> NoAnswer | ApiError:
    if isinstance(outcome, Failure):
        return NoAnswer(outcome.reason, idempotency_key)
    try:
        document = exact_json.loads(outcome.body)
    except ValueError:
        document = None  # A proxy may respond with a body that is not JSON.
    if not isinstance(document, dict):
        document = {}
    code = document.get("error_code")
    kind = refusal_class(outcome.status, code if isinstance(code, str) else None)
    return kind(
        outcome.status,
        document,
        request_id=outcome.headers.get("x-request-id"),
        retry_after_seconds=retry_after_seconds(outcome),
        idempotency_key=idempotency_key,
    )
