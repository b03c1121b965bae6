"""Errors that the API returns before it calls a use case."""

from typing import Any

from manilla.kit import strict_json
from manilla.kit.errors import Refusal


class ValidationFailed(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The request is not valid."


class InvalidAmount(Refusal):
    status, code = 400, "INVALID_AMOUNT"
    message = "The amount is not valid."


class InvalidEnvironment(Refusal):
    status, code = 400, "INVALID_ENVIRONMENT"
    message = "X-Environment must be `sandbox` or `production`."


class NotFound(Refusal):
    status, code = 404, "NOT_FOUND"
    message = "There is nothing at this URL."


class MethodNotAllowed(Refusal):
    status, code = 405, "METHOD_NOT_ALLOWED"
    message = "This URL does not support that method."

    def __init__(self, allowed: str) -> None:
        super().__init__()
        self.allowed = allowed


class ServerError(Refusal):
    """A bug in Manilla. The traceback is logged, and the caller sees no details."""

    status, code = 500, "SERVER_ERROR"
    message = "Something went wrong on our side."


def body(refusal: Refusal) -> bytes:
    """Returns the JSON body of an error."""
    content: dict[str, Any] = {"error": refusal.text, "error_code": refusal.code}
    if refusal.errors:
        content["errors"] = refusal.errors
    return strict_json.encode({**content, **(refusal.details or {})})


def headers(refusal: Refusal) -> list[tuple[bytes, bytes]]:
    """Returns the headers of an error response."""
    extra = []
    if refusal.retry_after_seconds is not None:
        extra.append((b"retry-after", str(refusal.retry_after_seconds).encode()))
    if isinstance(refusal, MethodNotAllowed):
        extra.append((b"allow", refusal.allowed.encode()))
    return extra
