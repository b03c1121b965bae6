"""Searches the documentation: a section matches if it contains every word.

Matches in titles and headings count more. docs.js searches the same index in the same way; this
module works without JavaScript.
"""

from collections.abc import Sequence

import msgspec

FOUND_MAX = 20
WORDS_MAX = 8
EXCERPT = 160
WEIGHTS = {"page": 8, "heading": 6, "text": 1}


class SearchEntry(msgspec.Struct, frozen=True):
    page: str
    heading: str
    address: str
    text: str


class SearchResult(msgspec.Struct, frozen=True):
    entry: SearchEntry
    excerpt: str


def search(index: Sequence[SearchEntry], query: str) -> list[SearchResult]:
    words = query.lower().split()[:WORDS_MAX]
    scored = [(_score(entry, words), entry) for entry in index] if words else []
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
    return [SearchResult(entry, _excerpt(entry.text, words)) for _, entry in best[:FOUND_MAX]]


def _score(entry: SearchEntry, words: Sequence[str]) -> int:
    """Returns the entry's score; 0 if any word does not occur in it."""
    total = 0
    for word in words:
        one = sum(
            weight for part, weight in WEIGHTS.items() if word in getattr(entry, part).lower()
        )
        if not one:
            return 0
        total += one
    return total


def _excerpt(text: str, words: Sequence[str]) -> str:
    places = [text.lower().find(word) for word in words]
    begin = max(min((place for place in places if place >= 0), default=0) - 40, 0)
    cut = text[begin : begin + EXCERPT]
    return f"{'… ' if begin else ''}{cut}{' …' if begin + EXCERPT < len(text) else ''}"
