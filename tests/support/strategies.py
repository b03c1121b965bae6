"""Hypothesis strategies that several test modules use."""

from hypothesis import strategies as st


def texts(*, min_size: int = 0, max_size: int | None = None) -> st.SearchStrategy[str]:
    """Generates any text faster than `st.text()`, which takes seconds in a new clone."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=min_size, max_size=max_size)
