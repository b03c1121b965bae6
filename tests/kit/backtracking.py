"""Counts the steps that Python's regular expressions take, so that a test needs no clock.

The engine tries the alternatives of a pattern one after the other. `Pattern.steps` does the same
and counts the characters that it compares.
"""

import itertools
import re
from collections.abc import Iterator
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

STEPS_MAX = 20_000
ENDLESS = 64  # a repetition with a larger maximum counts as unlimited
SHORTENED = 3  # the maximum of other repetitions, which only add a constant factor
CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
ONE = {op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN}
REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}
ANY_OTHER = "a0 é\n\0"  # characters that a pattern may exclude

Item = tuple[Any, Any]


class TooManySteps(Exception):
    pass


class Pattern:
    def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
        text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
        parsed = _parser.parse(text, flags)
        self._ignores_case = bool(parsed.state.flags & re.IGNORECASE)
        self.items: list[Item] = list(parsed)
        self._is_by_line = bool(parsed.state.flags & re.MULTILINE)
        self._letters = self._all_letters()
        self._steps = 0

    def steps(self, text: str, *, is_anchored: bool) -> int:
        """Returns the steps of `fullmatch`, or those of `finditer`, which starts at every place."""
        self._steps = start = 0
        while start <= len(text):
            ends = (end for end in self._ends(self.items, text, start))
            end = next((each for each in ends if not is_anchored or each == len(text)), None)
            if is_anchored:
                break
            start = max(start + 1, end or 0)
        return self._steps

    def attacks(self, *, is_anchored: bool) -> Iterator[tuple[str, str, str]]:
        """Yields texts as a start, a part to repeat, and an end. The start leads to a repetition.

        If a match can begin anywhere, each repetition of the start can begin one.
        """
        for start in sorted(set(self._starts(self.items, ""))):
            parts = set(self._letters)
            if not is_anchored and start:
                parts |= {start, *(start + each for each in self._letters)}
            for part, end in itertools.product(sorted(parts), ("", "\0")):
                yield start, part, end

    def _starts(self, items: list[Item], before: str) -> Iterator[str]:
        """Yields a text that leads to each unlimited repetition."""
        for kind, value in items:
            if kind in REPEATS and (value[1] > ENDLESS):
                yield before
            for part in _parts(kind, value):
                yield from self._starts(part, before)
            before += self._example([(kind, value)])

    def _example(self, items: list[Item]) -> str:
        found = ""
        for kind, value in items:
            if kind in ONE:
                found += next(each for each in self._letters if self._fits(kind, value, each))
            elif kind in REPEATS:
                found += self._example(list(value[2])) * value[0]
            elif parts := _parts(kind, value) if kind not in (op.ASSERT, op.ASSERT_NOT) else []:
                found += self._example(parts[0])
        return found

    def _all_letters(self) -> list[str]:
        """Returns one character for each set of places where the pattern accepts a character."""
        places = list(_places(self.items))
        written = [chr(code) for kind, value in places for code in _codes(kind, value)]
        found: dict[tuple[bool, ...], str] = {}
        for each in [*written, *ANY_OTHER]:
            found.setdefault(tuple(self._fits(kind, value, each) for kind, value in places), each)
        return list(found.values())

    def _ends(self, items: list[Item], text: str, at: int) -> Iterator[int]:
        """Yields the places where a match of these items can end, in the engine's order."""
        if not items:
            yield at
            return
        (kind, value), rest = items[0], items[1:]
        for end in self._item_ends(kind, value, text, at):
            yield from self._ends(rest, text, end)

    def _item_ends(self, kind: Any, value: Any, text: str, at: int) -> Iterator[int]:
        if kind in ONE:
            self._count()
            if at < len(text) and self._fits(kind, value, text[at]):
                yield at + 1
        elif kind in REPEATS:
            low, high, body = value
            high = high if high > ENDLESS else min(high, max(low, SHORTENED))
            ends = self._repeated(list(body), low, high, text, at, kind is op.MIN_REPEAT)
            yield from itertools.islice(ends, 1 if kind is op.POSSESSIVE_REPEAT else None)
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            direction, body = value
            begin = at if direction > 0 else at - body.getwidth()[0]
            holds = begin >= 0 and any(True for _ in self._ends(list(body), text, begin))
            if holds is (kind is op.ASSERT):
                yield at
        elif kind is op.AT:
            if self._is_at(value, text, at):
                yield at
        else:
            for part in _parts(kind, value):
                yield from self._ends(part, text, at)

    def _repeated(
        self, body: list[Item], low: int, high: int, text: str, at: int, is_lazy: bool
    ) -> Iterator[int]:
        if is_lazy and low <= 0:
            yield at
        if high > 0:
            for end in self._ends(body, text, at):
                if end > at:
                    yield from self._repeated(body, low - 1, high - 1, text, end, is_lazy)
        if not is_lazy and low <= 0:
            yield at

    def _is_at(self, where: Any, text: str, at: int) -> bool:
        if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return at == 0 or (self._is_by_line and text[at - 1] == "\n")
        if where in (op.AT_END, op.AT_END_STRING):
            return at == len(text) or (self._is_by_line and text[at] == "\n")
        return True  # the boundaries of words, which only make a pattern fail sooner

    def _fits(self, kind: Any, value: Any, letter: str) -> bool:
        letters = {letter, letter.lower(), letter.upper()} if self._ignores_case else {letter}
        return any(_fits(kind, value, each) for each in letters)

    def _count(self) -> None:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise TooManySteps


def _parts(kind: Any, value: Any) -> list[list[Item]]:
    if kind is op.BRANCH:
        return [list(each) for each in value[1]]
    if kind is op.SUBPATTERN:
        return [list(value[-1])]
    if kind is op.ATOMIC_GROUP:
        return [list(value)]
    if kind in REPEATS:
        return [list(value[2])]
    if kind in (op.ASSERT, op.ASSERT_NOT):
        return [list(value[1])]
    assert kind in ONE or kind is op.AT, f"{kind} is not supported"
    return []


def _places(items: list[Item]) -> Iterator[Item]:
    for kind, value in items:
        if kind in ONE:
            yield kind, value
        for part in _parts(kind, value):
            yield from _places(part)


def _codes(kind: Any, value: Any) -> Iterator[int]:
    if kind in (op.LITERAL, op.NOT_LITERAL):
        yield value
    elif kind is op.RANGE:
        yield value[0]
    elif kind is op.IN:
        for each in value:
            yield from _codes(*each)


def _fits(kind: Any, value: Any, letter: str) -> bool:
    if kind is op.LITERAL:
        return ord(letter) == int(value)
    if kind is op.NOT_LITERAL:
        return ord(letter) != int(value)
    if kind is op.RANGE:
        return bool(value[0] <= ord(letter) <= value[1])
    if kind is op.CATEGORY:
        return re.fullmatch(CATEGORIES[value], letter) is not None
    if kind is op.IN:
        excludes = value[0][0] is op.NEGATE
        sets = value[excludes:]
        return any(_fits(part, codes, letter) for part, codes in sets) is not excludes
    return True  # op.ANY
