"""Expected errors that the caller can act on. Any other exception is a bug."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self


def translatable(text: str) -> str:
    """Marks an English text that customers see, so that `tools.catalogues` finds it."""
    return text


class Refusal(Exception):
    """An expected error that the caller can act on. The API, the pages and the CLI format it."""

    status: ClassVar[int] = 422
    code: ClassVar[str] = "REFUSED"
    message: ClassVar[str] = "The request was rejected."

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
        return cls(text, errors={field: text})

    @property
    def text(self) -> str:
        return str(self.args[0])


class Unavailable(Refusal):
    """The database is unavailable or a queue is full. The outcome of a write is unknown."""

    status, code = 503, "SERVICE_UNAVAILABLE"
    message = translatable("The service is busy or briefly unavailable. Please try again.")

    def __init__(self, message: str | None = None, *, host: str | None = None) -> None:
        super().__init__(message, retry_after_seconds=1)
        self.host = host

    @property
    def facts(self) -> dict[str, str]:
        """The error's cause and the database host, for logs and operators. API callers never see
        them.
        """
        error = self.__cause__
        cause = (
            "too many requests are waiting" if error is None else str(error) or type(error).__name__
        )
        return {"cause": cause, **({"host": self.host} if self.host else {})}


@contextlib.contextmanager
def reported_in_one_line() -> Iterator[None]:
    """Ends the process with exit code 1 and a one-line message if an expected error is raised."""
    try:
        yield
    except Refusal as refusal:
        print(f"manilla: {refusal.text}", file=sys.stderr)
        raise SystemExit(1) from None
