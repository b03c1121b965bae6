"""Finds a bank by its exact name after normalization. Similar names do not match."""

import re
import unicodedata
from collections import Counter

from manilla.banks.nigeria import BANKS, NigerianBank

LENGTH_MAX = 200
_WORD = re.compile(r"[a-z0-9]+")
# Words to abbreviate instead of removing: without them, two banks could have the same name.
_SHORTENED = (
    (re.compile(r"\b(micro ?finance( bank)?|mf ?bank|mfb( bank)?)\b"), "mfb"),
    (re.compile(r"\bpayment service bank\b"), "psb"),
)
_DROPPED = {"bank", "plc", "limited", "ltd", "nigeria", "nig", "the", "of"}
_WITH_PARENTHESES = re.compile(r"([^()]+)\(([^()]+)\)\s*")
_WORD_LENGTH_MIN = 3


def key(name: str) -> str:
    """Returns the normalized name, or an empty string if the name must not match any bank.

    A name with a non-ASCII character matches no bank, because the character may imitate a letter.
    """
    text = unicodedata.normalize("NFKC", name[: LENGTH_MAX + 1]).casefold()
    return "".join(_words(text)) if text.isascii() and len(text) <= LENGTH_MAX else ""


def find_bank(name: str) -> NigerianBank | None:
    """Returns the bank with this name, alias or former name.

    `Name (other name)` matches if both names belong to the same bank.
    """
    found = _BY_KEY.get(key(name))
    parts = _WITH_PARENTHESES.fullmatch(name)
    if found is not None or parts is None:
        return found
    outside, inside = (_BY_KEY.get(key(part)) for part in parts.groups())
    return outside if outside == inside else None


def has_word_of(name: str, bank: NigerianBank) -> bool:
    """Whether the name contains a word that occurs only in this bank's names."""
    return bool(key(name)) and any(_OWNERS.get(word) == bank for word in _words(name.casefold()))


def search(text: str, limit: int) -> list[NigerianBank]:
    """Returns banks whose name, alias or code contains the text, exact and prefix matches first."""
    wanted = "".join(_words(text.casefold())) or "".join(_WORD.findall(text.casefold()))
    if not wanted:
        return []
    found = [(place, bank) for bank in BANKS if (place := _place(bank, wanted)) is not None]
    return [bank for _, bank in sorted(found, key=lambda each: (each[0], each[1].name))][:limit]


def _place(bank: NigerianBank, wanted: str) -> int | None:
    texts = [*(code.casefold() for code in bank.codes), *(key(name) for name in bank.names)]
    if wanted in texts:
        return 0
    if any(text.startswith(wanted) for text in texts):
        return 1
    return 2 if any(wanted in text for text in texts) else None


def _words(text: str) -> list[str]:
    words = " ".join(_WORD.findall(text))
    for pattern, short in _SHORTENED:
        words = pattern.sub(short, words)
    return [word for word in words.split() if word not in _DROPPED]


def _owners() -> dict[str, NigerianBank]:
    words = {
        (word, bank.code): bank
        for bank in BANKS
        for name in bank.names
        for word in _words(name.casefold())
        if len(word) >= _WORD_LENGTH_MIN
    }
    counts = Counter(word for word, _ in words)
    return {word: bank for (word, _), bank in words.items() if counts[word] == 1}


_BY_KEY = {key(name): bank for bank in BANKS for name in bank.names}
_OWNERS = _owners()
