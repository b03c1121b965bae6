"""Formats money, times and statuses on pages."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

from markupsafe import Markup, escape

from manilla.kit.clock import LAGOS
from manilla.kit.display import DAY, clean, in_lagos, moment_text, money
from manilla.kit.money import DECIMALS, Money

__all__ = [
    "badge",
    "browser",
    "clean",
    "describe_changes",
    "minor",
    "moment",
    "money",
    "near_moment",
    "render_backticks",
    "short_moment",
    "shorten",
    "shown_value",
    "title",
]

# Maps each status to its color in the style sheet.
TONES = {
    state: tone
    for tone, states in {
        "green": "success completed delivered paid approved active enabled used resolved healthy "
        "up won",
        "yellow": "pending waiting open opening held submitted needs_information",
        "orange": "suspense under_review degraded needs_response",
        "red": "failed rejected refused down lost",
    }.items()
    for state in states.split()
}
OTHER_TONE = "secondary"
# A shortened id always shows this many characters at its end.
ID_END = 6
ID_LENGTH_MAX = 100


# The first match is used, because most user agents also name other browsers.
BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS", "Firefox"),
    ("CriOS", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
)
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


# How the audit log stores amounts, times and days (`audit.entry.plain`).
_STORED_MONEY = re.compile(rf"(-?\d{{1,17}}(?:\.\d{{1,4}})?) ({'|'.join(DECIMALS)})")
_STORED_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
# Only checks read digests, such as `sha256:…` of a payout account, or `7:…` of a chain's head.
_STORED_DIGEST = re.compile(r"(?:[a-z0-9]{1,18}:)?[0-9a-f]{64}")
_STORED_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def badge(state: str, text: str | None = None) -> Markup:
    """Returns the HTML of a status: a label with a color and a text."""
    tone = TONES.get(state, OTHER_TONE)
    shown = escape(text or title(state))
    return Markup('<span class="state state-{}">{}</span>').format(tone, shown)


def shorten(value: str) -> Markup:
    """Returns the HTML of a long id. If space is short, the style sheet hides the id's middle.

    The page contains the whole id, so users can select, copy and search for it.
    """
    shown = clean(value, ID_LENGTH_MAX)
    return Markup('<code class="id" title="{}"><span>{}</span><span>{}</span></code>').format(
        shown, shown[:-ID_END], shown[-ID_END:]
    )


def moment(at: datetime | None) -> Markup:
    """Formats a time in Lagos time, as in date filters, with the UTC time as a tooltip."""
    return _time(at, f"{DAY}, %H:%M", with_seconds=True)


def short_moment(at: datetime | None) -> Markup:
    """Formats a time for a list: as date and time, or only as the date if it is in another year."""
    if at is not None and in_lagos(at).year != datetime.now(LAGOS).year:
        return _time(at, DAY)
    return _time(at, "%-d %b, %H:%M")


def near_moment(at: datetime) -> Markup:
    """Formats a time in a sentence: with seconds and without the date if it is today."""
    if in_lagos(at).date() == datetime.now(LAGOS).date():
        return _time(at, "%H:%M:%S")
    return short_moment(at)


def _time(at: datetime | None, pattern: str, *, with_seconds: bool = False) -> Markup:
    if at is None:
        return Markup('<span class="quiet">never</span>')
    here = in_lagos(at)
    utc = here.astimezone(UTC)
    seconds = Markup('<span class="seconds">{}</span>').format(here.strftime(":%S"))
    return Markup('<time datetime="{}" title="{}">{}{}</time>').format(
        utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        utc.strftime("%Y-%m-%d %H:%M:%S UTC"),
        here.strftime(pattern),
        seconds if with_seconds else "",
    )


def browser(user_agent: str) -> str:
    """Returns the browser and operating system of a user agent, such as `Chrome on Windows`."""
    name = next((word for mark, word in BROWSERS if mark in user_agent), "Unknown browser")
    system = next((word for mark, word in SYSTEMS if mark in user_agent), None)
    return f"{name} on {system}" if system else name


def minor(amount: int, currency: str) -> str:
    return money(Money(currency, amount))


def title(word: str) -> str:
    """Formats `payout_fee` as `Payout fee`."""
    text = word.replace("_", " ").replace(".", " ").strip()
    return text[:1].upper() + text[1:]


def shown_value(value: Any) -> str:
    """Formats a value as the audit log stores it: `100.00 NGN` becomes `₦100.00`.

    Times are shown in Lagos time. Other text is returned unchanged.
    """
    text = str(value)
    with suppress(ValueError):  # a note can look like a time
        if amount := _STORED_MONEY.fullmatch(text):
            return money(Money.of(amount[1], amount[2]))
        if _STORED_TIME.fullmatch(text):
            return moment_text(datetime.fromisoformat(text))
        if _STORED_DAY.fullmatch(text):
            return date.fromisoformat(text).strftime(DAY)
    return text


def describe_changes(detail: Mapping[str, Any], currency: str = "") -> list[str]:
    """Returns an audit entry's or approval's details as text: `Status: pending → approved`.

    `currency` is that of amounts in minor units, if the details contain no currency. Digests are
    hidden.
    """
    currency = detail.get("currency") or currency
    texts: list[str] = []
    for name, value in _without_digests(detail):
        label, word = _labeled(name, currency)
        match value:
            case {"before": before, "after": after}:
                texts.append(f"{label}: {word(before)} → {word(after)}")
            case Mapping():
                texts += describe_changes(value, currency)
            case None | "":
                continue
            case _:
                texts.append(f"{label}: {word(value)}")
    return texts


def _without_digests(detail: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in detail.items() if not _is_digest(value)]


def _is_digest(value: Any) -> bool:
    match value:
        case str():
            return _STORED_DIGEST.fullmatch(value) is not None
        case {"before": before, "after": after}:
            return _is_digest(before) or _is_digest(after)
        case list():
            return any(map(_is_digest, value))
    return False


def _labeled(name: str, currency: str) -> tuple[str, Callable[[Any], str]]:
    """Returns a field's label and the function that formats its value."""
    if not name.endswith("_minor") or currency not in DECIMALS:
        return title(name), partial(_word, currency=currency)
    return title(name.removesuffix("_minor")), partial(_minor_word, currency)


def _minor_word(currency: str, value: Any) -> str:
    return minor(value, currency) if isinstance(value, int) else _word(value)


def _word(value: Any, *, currency: str = "") -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(_word(each) for each in value)
        case Mapping():
            fields = [(*_labeled(name, currency), each) for name, each in _without_digests(value)]
            return ", ".join(f"{label.lower()} {word(each)}" for label, word, each in fields)
    return shown_value(value)


def render_backticks(text: str) -> Markup:
    """Converts text in backticks to HTML code elements."""
    pieces = text.split("`")
    return Markup("").join(_alternating(pieces))


def _alternating(pieces: Iterable[str]) -> Iterable[Markup]:
    for place, piece in enumerate(pieces):
        yield Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece)
