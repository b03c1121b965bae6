"""Formats money, durations and text from third parties for pages and files."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

from manilla.kit.clock import LAGOS
from manilla.kit.money import DECIMALS, Money, MoneyError

# Formats money as `₦1,234,567.50`, for templates and lists.
money: Callable[[Money], str] = str

DAY = "%-d %b %Y"
# Converting a later time to a time zone ahead of UTC would overflow.
LATEST = datetime(9999, 12, 31, tzinfo=UTC)
TEXT_MAX = 4_000  # maximum length of a displayed description, so that pages stay fast

# Control characters, direction marks, zero-width characters and blank fillers are invisible.
# A name with invisible characters can imitate another name or reverse the digits of an amount.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
)
# An amount as earlier versions wrote it in texts.
_STORED_AMOUNT = re.compile(
    r"(?<![\w.,-])(-?\d{1,3}(?:,?\d{3}){0,5}(?:\.\d{1,4})?) "
    rf"({'|'.join(DECIMALS)})\b"
)
_LINE_ENDS = re.compile("\r\n?|[\u0085\u2028\u2029]")


def in_lagos(at: datetime) -> datetime:
    return min(at.astimezone(UTC), LATEST).astimezone(LAGOS)


def moment_text(at: datetime) -> str:
    """Formats a time in Lagos time as `31 Jan 2026, 14:05`."""
    return in_lagos(at).strftime(f"{DAY}, %H:%M")


def percentage(share: float | None) -> str:
    """Formats a share from 0 to 1 as `96.7 %`."""
    return "—" if share is None else f"{100 * share:.1f} %"


def with_symbols(text: str) -> str:
    """Formats the amounts in a stored text as on pages: `9,250.00 NGN` becomes `₦9,250.00`."""
    return _STORED_AMOUNT.sub(_with_symbol, text)


def _with_symbol(found: re.Match[str]) -> str:
    try:
        return money(Money.of(found[1].replace(",", ""), found[2]))
    except MoneyError:
        return found[0]


def duration(seconds: int) -> str:
    """Formats a duration as `29 min`, for pages without a JavaScript countdown."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days} {'day' if days == 1 else 'days'} {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


def clean(text: str, at_most: int = TEXT_MAX) -> str:
    """Removes invisible characters and extra whitespace, and truncates the text for display."""
    # Truncate very long texts first, so that at most 8 * `at_most` characters are cleaned.
    seen = _UNSEEN.sub("", _LINE_ENDS.sub("\n", text[: 8 * at_most]))
    lines = (" ".join(line.split()) for line in seen.split("\n"))
    joined = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return joined if len(joined) <= at_most else joined[: at_most - 1].rstrip() + "…"
