"""Searches the documentation: a section matches if it contains every word.

Pages whose title matches come first, then headings, then text. The page of an endpoint is also
found by its name, such as `verify-payment`, and by its name with spaces. The legacy API comes last
among equals.
"""

from collections.abc import Sequence
from enum import IntEnum

import msgspec

FOUND_MAX = 20
WORDS_MAX = 8
EXCERPT = 160
ARTICLES = ("a", "an", "the")
BETWEEN = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "  # between a page and its heading


class Rank(IntEnum):
    """Where the words occur. A lower rank comes first."""

    WHOLE_TITLE = 0
    TITLE = 1
    WHOLE_HEADING = 2
    HEADING = 3
    TEXT = 4


class SearchEntry(msgspec.Struct, frozen=True):
    """A section of a page. The first section of a page has no heading and stands for the page."""

    page: str
    heading: str
    address: str
    text: str
    name: str = ""  # the endpoint's name, on an endpoint's page
    is_legacy: bool = False


class SearchResult(msgspec.Struct, frozen=True):
    title: str
    address: str
    excerpt: str


def search(index: Sequence[SearchEntry], query: str) -> list[SearchResult]:
    words = query.lower().split()[:WORDS_MAX]
    if not words:
        return []
    ranked = [(rank, entry) for entry in index if (rank := _rank(entry, words)) is not None]
    best = sorted(ranked, key=lambda pair: (pair[0], pair[1].is_legacy))[:FOUND_MAX]
    return [_result(entry, words) for _, entry in best]


def _rank(entry: SearchEntry, words: Sequence[str]) -> Rank | None:
    """Returns the entry's rank; None if it does not match.

    Words in the page's title also count for its sections, but a section matches only if a word
    occurs in its own heading or text.
    """
    titles = [entry.heading] if entry.heading else [entry.page, entry.name]
    is_page = not entry.heading
    if _plain(" ".join(words)) in map(_plain, titles):
        return Rank.WHOLE_TITLE if is_page else Rank.WHOLE_HEADING
    if _matches(words, titles, entry.page):
        return Rank.TITLE if is_page else Rank.HEADING
    return Rank.TEXT if _matches(words, [*titles, entry.text], entry.page) else None


def _plain(title: str) -> str:
    """Returns a title without the differences that do not matter: “Verify a payment”."""
    words = title.lower().replace("-", " ").split()
    return " ".join(word for word in words if word not in ARTICLES)


def _matches(words: Sequence[str], own: Sequence[str], page: str) -> bool:
    """Whether every word occurs in the section's texts or title, and at least one in its texts."""
    text = " ".join(own).lower()
    return any(word in text for word in words) and all(
        word in text or word in page.lower() for word in words
    )


def _result(entry: SearchEntry, words: Sequence[str]) -> SearchResult:
    title = BETWEEN.join([entry.page, entry.heading]) if entry.heading else entry.page
    return SearchResult(title, entry.address, _excerpt(entry.text, words))


def _excerpt(text: str, words: Sequence[str]) -> str:
    places = [text.lower().find(word) for word in words]
    begin = max(min((place for place in places if place >= 0), default=0) - 40, 0)
    cut = text[begin : begin + EXCERPT]
    return f"{'… ' if begin else ''}{cut}{' …' if begin + EXCERPT < len(text) else ''}"
