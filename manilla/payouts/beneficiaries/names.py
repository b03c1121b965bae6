"""Compares names of an account holder: from two rails, or from a merchant and the bank."""

import re
import unicodedata

_WORDS = re.compile(r"\w+")
SHARED_WORDS_MIN = 2


def agree(first: str, second: str) -> bool:
    """Whether both names can be of the same account holder.

    Names are written in different orders, and some leave out a middle name. Every word of the
    shorter name must be in the longer one.
    """
    words = sorted((_words(first), _words(second)), key=len)
    is_contained = words[0] <= words[1] and bool(words[0])
    return is_contained and (words[0] == words[1] or len(words[0]) >= SHARED_WORDS_MIN)


def _words(name: str) -> set[str]:
    plain = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(each for each in plain if not unicodedata.combining(each))
    return set(_WORDS.findall(letters))
