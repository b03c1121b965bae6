"""Writes structured logs: one JSON object per line, without secrets."""

import asyncio
import logging
import os
import re
from datetime import datetime
from typing import Any, BinaryIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, WrappedLogger

# Fields whose names match this pattern are never logged.
_SECRET = re.compile(
    r"secret|password|signature|authorization|api[-_]?key|master[-_]?key|token|bvn|cookie",
    re.IGNORECASE,
)
_ACCOUNT_NUMBER = re.compile(r"account_number|nuban", re.IGNORECASE)
HIDDEN = "[hidden]"
LINE_END = b"\n"


def redact(value: Any, name: str = "") -> Any:
    if _SECRET.search(name):
        return HIDDEN
    if _ACCOUNT_NUMBER.search(name):
        return "******" + str(value)[-4:]
    if isinstance(value, dict):
        return {key: redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, name) for item in value]
    return value


def _redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        event[name] = redact(value, name)
    return event


def _render(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    return msgspec.json.encode(event, enc_hook=str)


class RequestLine(msgspec.Struct, frozen=True, kw_only=True):
    """The log line of a request.

    This is a struct for speed, because it is the most frequent log line. Its fields are fixed, and
    no field is secret.
    """

    timestamp: datetime
    level: str = "info"
    event: str = "request"
    program: str
    request_id: str
    method: str
    path: str
    status: int
    error_code: str | None
    merchant_id: int | None
    environment: str | None
    address: str
    milliseconds: float
    trace_id: str | msgspec.UnsetType = msgspec.UNSET  # omitted if tracing is off


_encode_lines = msgspec.json.Encoder().encode_lines
_program: str | None = None  # None if logging is not configured and nothing is written

# The lines that are logged in one event-loop iteration are written together.
# A write to a pipe that several processes share is atomic only up to WRITE_BYTES_MAX.
_lines: list[RequestLine] = []
WRITE_BYTES_MAX = 4096


def write_request(**fields: Any) -> None:
    """Queues a request's log line, which is written in the event loop's next iteration."""
    if _program is None:
        return
    if not _lines:
        asyncio.get_running_loop().call_soon(_write_lines)
    _lines.append(RequestLine(program=_program, **fields))


def _write_lines() -> None:
    lines = _lines.copy()
    _lines.clear()
    text, start = _encode_lines(lines), 0
    while start < len(text):
        end = text.rfind(LINE_END, start, start + WRITE_BYTES_MAX)
        if end < 0:  # this line is too long for a single write
            end = text.index(LINE_END, start)
        _output.write(text[start : end + 1])
        start = end + 1


class _Output:
    """Writes to standard error. If the disk is full, log lines are lost, but no request fails."""

    _is_cut = False  # whether the last line was written only partially

    def write(self, text: bytes) -> None:
        if self._is_cut:
            text = LINE_END + text
        try:
            self._is_cut = os.write(2, text) < len(text)
        except OSError:
            self._is_cut = True

    def flush(self) -> None:
        pass


_output = _Output()


def configure(program: str) -> None:
    global _program  # noqa: PLW0603
    _program = program
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact_event,
            _render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", _output)),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(program=program)
    logging.basicConfig(level=logging.WARNING, handlers=[_Forward()], force=True)


class _Forward(logging.Handler):
    """Forwards messages that libraries log with Python's `logging` module."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(record.name).log(
            record.levelno, record.getMessage(), exc_info=record.exc_info
        )
