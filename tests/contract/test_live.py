"""Every client passes the contract against a running instance."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.runners import PREPARED, check, readme_program, run
from tests.support.instance import Instance

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance with simulated providers, which completes sandbox payments immediately."""
    instance = Instance(tmp_path_factory.mktemp("contract") / "data").wait()
    instance.command("setting", "set", "sandbox_complete_seconds", "0")
    instance.command("setting", "set", "rate_limit_per_minute", "1000")
    yield instance
    assert instance.stop() == 0


def credentials(instance: Instance, name: str) -> dict[str, str]:
    """Creates a merchant, so that lists contain only the items of one client."""
    own = instance.command("merchant", "create", "Ada Stores", f"{name}@example.com")["sandbox"]
    return {
        "MANILLA_URL": f"http://127.0.0.1:{instance.port}",
        "MANILLA_MERCHANT_KEY": own["merchant_key"],
        "MANILLA_API_KEY": own["api_key"],
        "MANILLA_API_SECRET": own["api_secret"],
    }


@pytest.mark.parametrize("client", PREPARED)
def test_a_client_passes_the_contract(client: str, instance: Instance, tmp_path: Path) -> None:
    command = PREPARED[client](tmp_path)
    check(command, tmp_path, **credentials(instance, client))


def test_the_python_clients_readme_makes_a_payment(
    instance: Instance, project: Path, tmp_path: Path
) -> None:
    program = readme_program(project / "clients" / "python" / "README.md", "python")
    done = run([sys.executable, "-c", program], tmp_path, credentials(instance, "readme"))
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"(TXN\w+) http://\S+/checkout/\1\?", done.stdout)
