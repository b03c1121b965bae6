"""The Python client passes the contract of all clients, without an instance."""

from pathlib import Path

import pytest

from tests.contract.runners import PREPARED, check


@pytest.mark.parametrize("client", ["python", "python-async"])
def test_the_python_client_passes_the_contract(client: str, tmp_path: Path) -> None:
    assert ", 0 failed" in check(PREPARED[client](tmp_path), tmp_path)
