"""Platform data that changes on a date: a list of values, each with the day since which it holds.

`kept, returned@2027-01-01` is `kept` until the end of 2026. Several values can hold for different
subjects: `paystack:16h, flutterwave/international:30wh@2026-09-13`. The most specific subject
counts, then the latest day.
"""

import re
from datetime import date
from functools import lru_cache

import msgspec

ANY = "*"
CLOCK = re.compile(r"([1-9][0-9]{0,3})(h|wh)")
HOURS = re.compile(r"([01]?[0-9])-(2[0-4]|1?[0-9])")
_SUBJECT = re.compile(r"\*|[a-z0-9_]+(?:/[a-z_]+){0,2}")


class Dated(msgspec.Struct, frozen=True):
    subject: str  # empty if the value has no subject
    value: str
    since: date | None


@lru_cache(maxsize=100)
def parse(text: str) -> tuple[Dated, ...]:
    """Parses the list. Raises a ValueError if it is not valid."""
    entries = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        value, _, day = part.partition("@")
        subject, colon, rest = value.rpartition(":")
        if colon and _SUBJECT.fullmatch(subject) is None:
            raise ValueError(f"{subject!r} is not a subject")
        entries.append(Dated(subject, rest.strip(), date.fromisoformat(day) if day else None))
    return tuple(entries)


def value_on(text: str, day: date, subjects: tuple[str, ...] = ("",)) -> str | None:
    """Returns the value that holds on this day for the first subject that has one."""
    for subject in subjects:
        held = [
            each
            for each in parse(text)
            if each.subject == subject and (each.since is None or each.since <= day)
        ]
        if held:
            return max(held, key=lambda each: each.since or date.min).value
    return None


def is_clocks(text: str) -> bool:
    """Whether the text has a clock for all subjects, and each value is hours or working hours."""
    entries = parse(text)
    has_default = any(each.subject == ANY and each.since is None for each in entries)
    return has_default and all(each.subject and CLOCK.fullmatch(each.value) for each in entries)
