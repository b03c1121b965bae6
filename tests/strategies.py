"""Strategies of Hypothesis that several tests use."""

from hypothesis import strategies as st


def texts(*, min_size: int = 0, max_size: int | None = None) -> st.SearchStrategy[str]:
    """Any text. In a new checkout, `st.text()` needs seconds to compute its default alphabet."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=min_size, max_size=max_size)
