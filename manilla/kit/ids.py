"""Generates time-ordered ids, request ids and random keys."""

import os
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial

import msgspec

# Crockford's base 32 omits I, L, O and U, so an id can be read out over the phone.
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
OWNER_CHARACTERS, RANDOM_CHARACTERS = 7, 13
OWNER_MAX = 32**OWNER_CHARACTERS - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Encode two digits at a time, which halves the number of iterations.
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
# Maps each random byte to a character, with eight of the 256 byte values per character.
_OF_BYTE = (ALPHABET * 8).encode()


def base32(number: int, characters: int) -> str:
    pairs = range(10 * ((characters + 1) // 2 - 1), -1, -10)
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in pairs])[characters & 1 :]


def random_base32(characters: int) -> str:
    """Returns random characters, each with five random bits."""
    return os.urandom(characters).translate(_OF_BYTE).decode()


_owner = lru_cache(maxsize=10_000)(partial(base32, characters=OWNER_CHARACTERS))
# Cached, because a busy process creates several ids per millisecond.
_time = lru_cache(maxsize=16)(base32)


class TimedIds(msgspec.Struct, frozen=True):
    """Generates ids that sort by time.

    An id consists of a prefix, the time, the owner's number and 65 random bits.
    """

    prefix: str
    unit_microseconds: int  # resolution of the time in the id
    time_characters: int

    @property
    def length(self) -> int:
        return len(self.prefix) + self.time_characters + OWNER_CHARACTERS + RANDOM_CHARACTERS

    @property
    def pattern(self) -> str:
        """A regular expression that matches ids and `floor` strings, up to the year 9700."""
        return f"^{self.prefix}[0-6][{ALPHABET}]{{{self.time_characters - 1}}}"

    def new(self, owner: int) -> str:
        return self.new_at(owner, time.time_ns())

    def new_at(self, owner: int, nanoseconds: int) -> str:
        """Returns a new id for the given time, in nanoseconds since 1970."""
        assert 0 <= owner <= OWNER_MAX
        return (
            self.prefix
            + _time(nanoseconds // (1_000 * self.unit_microseconds), self.time_characters)
            + _owner(owner)
            + random_base32(RANDOM_CHARACTERS)
        )

    def new_with_time(self, owner: int) -> tuple[str, datetime]:
        """Returns a new id, and the time that the id contains."""
        units = time.time_ns() // (1_000 * self.unit_microseconds)
        microseconds = units * self.unit_microseconds
        moment = _EPOCH + timedelta(microseconds=microseconds)
        return self.new_at(owner, 1_000 * microseconds), moment

    def owner_of(self, text: str) -> int | None:
        """Returns the owner's number from an id, or None if the text is not an id of this type."""
        digits = text.removeprefix(self.prefix)
        if len(text) != self.length or digits == text or not set(digits) <= set(ALPHABET):
            return None
        return number(digits[self.time_characters :][:OWNER_CHARACTERS])

    def floor(self, moment: datetime) -> str:
        """Returns a string that sorts after all ids created before this time, and before all later
        ids.

        The time in an id is a whole number of units, so the given time is rounded up.
        """
        units = -((_EPOCH - moment) // timedelta(microseconds=self.unit_microseconds))
        return self.prefix + base32(max(0, units), self.time_characters)

    def moment_of(self, text: str) -> datetime | None:
        """Returns the time in an id or in a `floor` string, or None if the text is neither."""
        digits = text[len(self.prefix) :][: self.time_characters]
        if not text.startswith(self.prefix) or len(digits) != self.time_characters:
            return None
        units = number(digits)
        try:
            unit = timedelta(microseconds=self.unit_microseconds)
            return None if units is None else _EPOCH + units * unit
        except OverflowError:
            return None


def number(text: str) -> int | None:
    """Decodes a number that `base32` encoded, or returns None if the text is invalid."""
    decoded = 0
    for character in text:
        if character not in ALPHABET:
            return None
        decoded = decoded * 32 + ALPHABET.index(character)
    return decoded


def new_request_id() -> str:
    return os.urandom(12).hex()


def new_key(prefix: str = "") -> str:
    """Returns a key of 160 random bits. A double click selects the whole key."""
    return prefix + random_base32(32).lower()
