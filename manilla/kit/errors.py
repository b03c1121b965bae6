"""Refusals: what a caller is told and can act on. Anything else that is raised is a bug."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self


class Refusal(Exception):
    """A business answer of "no". Subclasses say which; the surface says it in its own format."""

    status: ClassVar[int] = 422
    code: ClassVar[str] = "REFUSED"
    message: ClassVar[str] = "The request was refused."

    def __init__(
        self,
        message: str | None = None,
        *,
        errors: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message or self.message)
        self.errors = errors
        self.details = details
        self.retry_after_seconds = retry_after_seconds

    @classmethod
    def at(cls, field: str, text: str) -> Self:
        """What is wrong with one field."""
        return cls(text, errors={field: text})

    @property
    def text(self) -> str:
        return str(self.args[0])


class Unavailable(Refusal):
    """The database is away, or a queue is full. Whether a write took effect is not known."""

    status, code = 503, "SERVICE_UNAVAILABLE"
    message = "The service is busy or briefly unavailable. Please try again."

    def __init__(self, message: str | None = None, *, host: str | None = None) -> None:
        super().__init__(message, retry_after_seconds=1)
        self.host = host

    @property
    def facts(self) -> dict[str, str]:
        """For logs and operators, never for callers: what went wrong, and with which host."""
        error = self.__cause__
        cause = "too many are waiting" if error is None else str(error) or type(error).__name__
        return {"cause": cause, **({"host": self.host} if self.host else {})}
