"""Searches the documentation. A section matches if it contains every word of the query.

Matching page titles come first, then headings, then text. An endpoint's page is also found by the
endpoint's name, such as `verify-payment` or `verify payment`. Among results of equal rank, the
legacy API comes last.
"""

from collections.abc import Sequence
from enum import IntEnum

import msgspec

FOUND_MAX = 20
WORDS_MAX = 8
EXCERPT = 160
ARTICLES = ("a", "an", "the")
BETWEEN = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "  # separates page title and heading


class Rank(IntEnum):
    """Where the query's words occur in a section. Results with a lower rank come first."""

    WHOLE_TITLE = 0
    TITLE = 1
    WHOLE_HEADING = 2
    HEADING = 3
    TEXT = 4


class SearchEntry(msgspec.Struct, frozen=True):
    """A section of a page. A page's first section has no heading and represents the page."""

    page: str
    heading: str
    address: str
    text: str
    name: str = ""  # the endpoint's name, or empty for other pages
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
    """Returns the section's rank, or None if the section does not match.

    Words may also occur in the page's title, but at least one word must occur in the section's own
    heading or text.
    """
    titles = [entry.heading] if entry.heading else [entry.page, entry.name]
    is_page = not entry.heading
    if _plain(" ".join(words)) in map(_plain, titles):
        return Rank.WHOLE_TITLE if is_page else Rank.WHOLE_HEADING
    if _matches(words, titles, entry.page):
        return Rank.TITLE if is_page else Rank.HEADING
    return Rank.TEXT if _matches(words, [*titles, entry.text], entry.page) else None


def _plain(title: str) -> str:
    """Normalizes a title for comparison: lower case, without hyphens and articles."""
    words = title.lower().replace("-", " ").split()
    return " ".join(word for word in words if word not in ARTICLES)


def _matches(words: Sequence[str], own: Sequence[str], page: str) -> bool:
    """Returns whether section and page title contain all words, and the section at least one."""
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
