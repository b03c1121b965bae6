import pytest


@pytest.fixture(scope="module", autouse=True)
def _invariants_hold() -> None:
    """Disables the check of the whole ledger, because no test in this folder uses the database."""
