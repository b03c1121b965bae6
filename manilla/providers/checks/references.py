"""Generates references for the objects that checks create at a provider."""

import re
import secrets

from manilla.kit.ids import ALPHABET, base32

PREFIX = "CHECK"
# All providers accept references of this length that consist of these characters.
RANDOM_CHARACTERS = 20
PATTERN = f"{PREFIX}[{ALPHABET}]{{{RANDOM_CHARACTERS}}}"
_REFERENCE = re.compile(PATTERN)


def new() -> str:
    return PREFIX + base32(secrets.randbits(5 * RANDOM_CHARACTERS), RANDOM_CHARACTERS)


def is_of_check(reference: str) -> bool:
    return _REFERENCE.fullmatch(reference) is not None
