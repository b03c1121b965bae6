"""Divides a parametrized test's rows between `make test` and `make test-all`."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def first_short(
    rows: Iterable[Any], *, of_each: Callable[[Any], object] = lambda _: None
) -> list[ParameterSet]:
    """Marks all rows as long except the first row, or the first row of each group.

    Use this function for rows that take the same path through the product, such as the provider
    kinds. The kinds differ only in their adapters, whose contracts are tested for each kind.
    """
    groups: set[object] = set()
    found = []
    for row in rows:
        is_first = of_each(row) not in groups
        groups.add(of_each(row))
        values = row if isinstance(row, tuple) else (row,)
        found.append(pytest.param(*values, marks=[] if is_first else pytest.mark.long))
    return found


def long_rows(*rows: Any) -> list[ParameterSet]:
    """Marks these rows as long, so that `make test` does not run them."""
    return [
        pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.long)
        for row in rows
    ]


def pairs(first: Sequence[Any], second: Sequence[Any]) -> list[ParameterSet]:
    """Returns every pair. `make test` runs only as many pairs as are needed to use each value once.

    Use this function for two parameters that the product handles independently, such as a field and
    a wrong value.
    """
    count = max(len(first), len(second))
    short = {(number % len(first), number % len(second)) for number in range(count)}
    return [
        pytest.param(
            first[one], second[other], marks=[] if (one, other) in short else pytest.mark.long
        )
        for one, other in itertools.product(range(len(first)), range(len(second)))
    ]
