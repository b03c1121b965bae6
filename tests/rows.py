"""Rows of a parametrized test that `make test` runs, and rows that only `make test-all` runs."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def first_short(
    rows: Iterable[Any], *, of_each: Callable[[Any], object] = lambda _: None
) -> list[ParameterSet]:
    """Marks all rows as long except the first, or the first of each group.

    For rows that take the same path through the product, such as the kinds of providers: their
    differences are in the adapters, whose contracts are tested for each kind.
    """
    groups: set[object] = set()
    found = []
    for row in rows:
        is_first = of_each(row) not in groups
        groups.add(of_each(row))
        values = row if isinstance(row, tuple) else (row,)
        found.append(pytest.param(*values, marks=[] if is_first else pytest.mark.long))
    return found
