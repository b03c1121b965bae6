"""What the API itself refuses, before any use case is asked."""

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


class InvalidCredentials(Refusal):
    """Says which header is at fault, where saying so helps no thief; never what was expected."""

    status, code = 401, "INVALID_CREDENTIALS"
    message = "Invalid API credentials."


class NotFound(Refusal):
    status, code = 404, "NOT_FOUND"
    message = "There is nothing at this address."


class MethodNotAllowed(Refusal):
    status, code = 405, "METHOD_NOT_ALLOWED"
    message = "This address does not take that method."

    def __init__(self, allowed: str) -> None:
        super().__init__()
        self.allowed = allowed


def headers(refusal: Refusal) -> list[tuple[bytes, bytes]]:
    """What a refusal says beside its body."""
    told = []
    if refusal.retry_after_seconds is not None:
        told.append((b"retry-after", str(refusal.retry_after_seconds).encode()))
    if isinstance(refusal, MethodNotAllowed):
        told.append((b"allow", refusal.allowed.encode()))
    return told
