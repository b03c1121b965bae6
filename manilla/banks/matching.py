"""Matches the entries of a provider's bank list with our banks. Ambiguous entries have no match."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from manilla.banks import names
from manilla.banks.nigeria import BY_ANY_CODE, NigerianBank


class MatchedBy(StrEnum):
    CODE = "code"
    NAME = "name"
    MANUAL = "manual"  # an administrator mapped the code to a bank, or to no bank


class Doubt(StrEnum):
    """The reason why an entry of a bank list is not matched, or why its match is not used."""

    CONTRADICTION = "contradiction"  # the code and the name belong to different banks
    DUPLICATE = "duplicate"  # the list has several codes for a bank, or several names for a code
    RENAMED = "renamed"  # the provider has renamed the bank since an administrator mapped the code


class Match(msgspec.Struct, frozen=True):
    """An entry of a provider's bank list, and the bank that it was matched with."""

    name: str
    bank: str | None = None  # the bank's code in our registry
    matched_by: MatchedBy | None = None
    doubt: Doubt | None = None
    is_listed: bool = True

    @property
    def is_manual(self) -> bool:
        return self.matched_by is MatchedBy.MANUAL


def match(listed: Iterable[tuple[str, str]], known: Mapping[str, Match]) -> dict[str, Match]:
    """Matches the provider's listed bank codes with our banks.

    Keeps administrators' decisions, and codes that are no longer listed.
    """
    found: dict[str, Match] = {}
    for code, name in listed:
        if code in found and names.key(found[code].name) != names.key(name):
            found[code] = Match(found[code].name, doubt=Doubt.DUPLICATE)
        elif code not in found:
            found[code] = _single(code, name)
    decided = {code: entry for code, entry in known.items() if entry.is_manual}
    matches = {
        code: _kept(decided[code], entry) if code in decided else entry
        for code, entry in found.items()
    }
    gone = {
        code: msgspec.structs.replace(entry, is_listed=False)
        for code, entry in known.items()
        if code not in found
    }
    return {**_without_duplicates(matches), **gone}


def _single(code: str, name: str) -> Match:
    by_code, by_name = BY_ANY_CODE.get(code), names.find_bank(name)
    if by_code is not None:
        if by_name == by_code or (by_name is None and names.has_word_of(name, by_code)):
            return Match(name, by_code.code, MatchedBy.CODE)
        return Match(name, doubt=Doubt.CONTRADICTION)
    return Match(name) if by_name is None else Match(name, by_name.code, MatchedBy.NAME)


def _kept(decided: Match, seen: Match) -> Match:
    """Returns an administrator's decision with the name that the provider now uses.

    If the provider has changed the name, the bank is not used until an administrator confirms it.
    """
    bank = names.find_bank(seen.name)
    is_same = names.key(seen.name) == names.key(decided.name) or _is(bank, decided.bank)
    is_clear = (is_same or decided.bank is None) and seen.doubt is not Doubt.DUPLICATE
    doubt = decided.doubt if is_clear else Doubt.RENAMED
    return msgspec.structs.replace(decided, name=seen.name, doubt=doubt, is_listed=True)


def _is(bank: NigerianBank | None, code: str | None) -> bool:
    return bank is not None and bank.code == code


def _without_duplicates(matches: Mapping[str, Match]) -> dict[str, Match]:
    counts = Counter(entry.bank for entry in matches.values() if entry.bank is not None)
    return {
        code: Match(entry.name, doubt=Doubt.DUPLICATE)
        if entry.bank is not None and counts[entry.bank] > 1 and not entry.is_manual
        else entry
        for code, entry in matches.items()
    }
