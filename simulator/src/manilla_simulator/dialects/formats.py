"""Time formats and random codes that several providers use."""

import hashlib
import secrets
import string
from datetime import UTC, datetime

_LETTERS = string.ascii_lowercase + string.digits


def iso_milliseconds(moment: datetime) -> str:
    """Formats a time as `2026-01-02T03:04:05.000Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + "000Z"


def optional_iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso_milliseconds(moment)


def random_code(prefix: str, length: int = 15) -> str:
    return prefix + "".join(secrets.choice(_LETTERS) for _ in range(length))


def derived_code(prefix: str, *parts: str) -> str:
    """Returns a code that looks random, but is always the same for the same input."""
    return prefix + hashlib.sha256("/".join(parts).encode()).hexdigest()[:15]
