"""Time as the wire wants it."""

from datetime import UTC, datetime


def iso(moment: datetime) -> str:
    """`2026-01-02T03:04:05.678901Z`: always UTC, always six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
