"""The steps of one API call, from the first attempt to the result, without any I/O.

The synchronous and asynchronous clients perform the steps: they send requests and wait.
"""

import math
import time
from collections.abc import Generator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias, TypeVar

from manilla_client import exact_json
from manilla_client.calls import Call
from manilla_client.credentials import Credentials
from manilla_client.errors import ApiError, BadAnswer, NoAnswer, refusal_class
from manilla_client.retries import RETRIED_STATUSES, Retries
from manilla_client.transport import Answer, Failure, Request

Kind = TypeVar("Kind")
Wait = float
Conversation: TypeAlias = Generator[Request | Wait, Answer | Failure | None, Kind]
# The API returns these errors before it looks for an earlier request with the idempotency key.
_EARLY_CODES = frozenset({"RATE_LIMIT_EXCEEDED", "INVALID_CREDENTIALS", "INSUFFICIENT_PERMISSION"})


def converse(call: Call[Kind], credentials: Credentials, retries: Retries) -> Conversation[Kind]:
    attempts, is_unknown = 0, False
    while True:
        attempts += 1
        outcome = yield signed(call, credentials)
        assert isinstance(outcome, Answer | Failure)
        is_unknown = is_unknown or may_have_taken_effect(
            call.method, outcome, has_own_key=call.has_own_key
        )
        if isinstance(outcome, Answer) and outcome.status == 200:
            try:
                content = read_content(call, outcome)
            except ValueError as error:
                outcome = Failure(f"The response cannot be parsed: {error}.")
            else:
                return read_result(call, content, outcome_unknown=is_unknown)
        wait_seconds = None
        if may_be_repeated(outcome):
            wait_seconds = retries.wait_seconds(attempts, retry_after_seconds(outcome))
        if wait_seconds is None:
            raise error_of(outcome, call.idempotency_key, outcome_unknown=is_unknown)
        yield wait_seconds


def read_content(call: Call[Any], answer: Answer) -> Any:
    """Returns the JSON document or the file. Raises a ValueError if the response is neither."""
    if call.file_type is None:
        return exact_json.loads(answer.body)
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip()
    if media_type != call.file_type:
        raise ValueError(f"it is {media_type!r} instead of {call.file_type!r}")
    return answer.body


def read_result(call: Call[Kind], content: Any, *, outcome_unknown: bool) -> Kind:
    """Reads the response. Whatever the response contains, an error has the idempotency key."""
    try:
        return call.read(content)
    except (BadAnswer, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise BadAnswer(
            str(error), outcome_unknown=outcome_unknown, idempotency_key=call.idempotency_key
        ) from error


def signed(call: Call[Any], credentials: Credentials) -> Request:
    """Returns the signed request. Each attempt gets a new signature, because signatures expire."""
    signed = credentials.headers(int(time.time()), call.method, call.target, call.body)
    return Request(call.method, call.target, {**call.headers(), **signed}, call.body)


def may_have_taken_effect(method: str, outcome: Answer | Failure, *, has_own_key: bool) -> bool:
    """Returns True unless the API itself has rejected the request.

    An error without an error code can be from a proxy, after the API has processed the request. If
    the caller chose the idempotency key, this request can be the repetition of an earlier one.
    """
    if method == "GET":
        return False
    if isinstance(outcome, Failure) or outcome.status >= 500:
        return True
    code = _document(outcome).get("error_code")
    return not isinstance(code, str) or (has_own_key and code in _EARLY_CODES)


def may_be_repeated(outcome: Answer | Failure) -> bool:
    if isinstance(outcome, Failure):
        return not outcome.is_final
    return outcome.status in RETRIED_STATUSES


def retry_after_seconds(outcome: Answer | Failure) -> int | None:
    """Returns the value of Retry-After, which is a number of seconds or a date."""
    given = outcome.headers.get("retry-after", "") if isinstance(outcome, Answer) else ""
    if given.isascii() and given.isdigit():
        return int(given) if len(given) <= 9 else None
    ends = _date(given)
    if ends is None:
        return None
    assert isinstance(outcome, Answer)
    # The local clock is only used without the server's time, because it can be minutes off.
    now = _date(outcome.headers.get("date", "")) or datetime.now(UTC)
    return max(0, math.ceil((ends - now).total_seconds()))


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def error_of(
    outcome: Answer | Failure, idempotency_key: str | None, *, outcome_unknown: bool = False
) -> NoAnswer | ApiError:
    if isinstance(outcome, Failure):
        return NoAnswer(
            outcome.reason, outcome_unknown=outcome_unknown, idempotency_key=idempotency_key
        )
    document = _document(outcome)
    code = document.get("error_code")
    kind = refusal_class(outcome.status, code if isinstance(code, str) else None)
    return kind(
        outcome.status,
        document,
        request_id=outcome.headers.get("x-request-id"),
        retry_after_seconds=retry_after_seconds(outcome),
        location=outcome.headers.get("location"),
        outcome_unknown=outcome_unknown,
        idempotency_key=idempotency_key,
    )


def _document(answer: Answer) -> dict[str, Any]:
    """Returns the body. It is empty if it is not a JSON object, but for example a proxy's page."""
    try:
        document = exact_json.loads(answer.body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
