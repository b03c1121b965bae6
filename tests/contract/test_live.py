"""Every client passes the contract against a running instance."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.runners import PREPARED, check
from tests.instance import Instance

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance with simulated providers, which completes sandbox payments immediately."""
    instance = Instance(tmp_path_factory.mktemp("contract") / "data").wait()
    instance.command("setting", "set", "sandbox_complete_seconds", "0")
    instance.command("setting", "set", "rate_limit_per_minute", "1000")
    yield instance
    assert instance.stop() == 0


@pytest.mark.parametrize("client", PREPARED)
def test_a_client_passes_the_contract(client: str, instance: Instance, tmp_path: Path) -> None:
    """Each client has its own merchant, so that lists contain only this client's items."""
    command = PREPARED[client](tmp_path)
    own = instance.command("merchant", "create", "Ada Stores", f"{client}@example.com")["sandbox"]
    check(
        command,
        tmp_path,
        MANILLA_URL=f"http://127.0.0.1:{instance.port}",
        MANILLA_MERCHANT_KEY=own["merchant_key"],
        MANILLA_API_KEY=own["api_key"],
        MANILLA_API_SECRET=own["api_secret"],
    )
