"""Hypothesis strategies that several tests use."""

from hypothesis import strategies as st


def texts(*, min_size: int = 0, max_size: int | None = None) -> st.SearchStrategy[str]:
    """Generates any text. In a new checkout, `st.text()` needs seconds to compute its alphabet."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=min_size, max_size=max_size)
