"""Bruno imports the OpenAPI document, and runs requests that the script signs."""

import json
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.runners import OFFLINE
from tests.contract.runners import run as run_command
from tests.samples.languages import SAMPLES, skip_without
from tests.support.instance import Instance

pytestmark = pytest.mark.long

TRX_ID = ("TXN01M7EWKJ9J0000001WNNC2DWVAFGAZ", '"{{verifyPayment_trxId}}"')
# Maps each request that is run to a part of its file, and to what a developer writes instead.
EDITS = {
    "Payments/Initiate a payment": ("ORDER-1001", "{{ref}}"),
    "Payments/List payments": (
        "/api/v1/payments",
        "/api/v1/payments?from=2026-01-31T12:00:00+01:00&ref_trx={{ref}}",
    ),
    # Bruno stores the id from the response of initiate-payment, because OpenAPI links them.
    "Payments/Verify a payment": TRX_ID,
    "Payments/Cancel a payment": TRX_ID,
    "Customers/Get a customer": ("value: pupil-17", 'value: "Ada Obi@school:7"'),
    "Disputes/Add a file to the evidence": ("DSP", "DSP"),
}


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    instance = Instance(tmp_path_factory.mktemp("bruno") / "data").wait()
    yield instance
    assert instance.stop() == 0


@pytest.fixture
def variables(instance: Instance) -> dict[str, str]:
    """Creates a merchant, because the imported requests always have the same idempotency key."""
    email = f"{secrets.token_hex(4)}@example.com"
    own = instance.command("merchant", "create", "Ada Stores", email)["sandbox"]
    return {**own, "ref": "O'Brien=1? é"}


@pytest.fixture(scope="module")
def collection(instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs Bruno, imports the OpenAPI document, and adds the script to the collection."""
    skip_without("npm")
    folder = tmp_path_factory.mktemp("program")
    shutil.copytree(Path(__file__).parent / "bruno", folder, dirs_exist_ok=True)
    done = run_command(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"], folder
    )
    if done.returncode and any(code in done.stderr for code in OFFLINE):
        pytest.skip("npm cannot reach its registry to install Bruno")
    assert done.returncode == 0, done.stderr
    source = f"http://127.0.0.1:{instance.port}/api/openapi.json"
    imported = ["import", "openapi", "--source", source, "--output", ".", "-n", "Manilla"]
    assert bruno(folder, *imported).returncode == 0
    collection = folder / "Manilla"
    script = (SAMPLES / "bruno" / "sign.js").read_text()
    lines = "".join(f"        {line}\n" for line in script.splitlines())
    added = f"request:\n  scripts:\n    - type: before-request\n      code: |-\n{lines}"
    replace(collection / "opencollection.yml", "request:\n", added)
    for name, edit in EDITS.items():
        replace(collection / f"{name}.yml", *edit)
    return collection


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def bruno(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return run_command(["npx", "--no-install", "bru", *words], folder)


def results(collection: Path, variables: dict[str, str], *words: str) -> list[Any]:
    given = [part for each in variables.items() for part in ("--env-var", "=".join(each))]
    files = [f"{name}.yml" for name in EDITS]
    output = collection / "results.json"
    ran = bruno(collection, "run", *files, "--env", "This site", *given, "-o", output.name, *words)
    assert output.exists(), ran.stdout + ran.stderr
    [run] = json.loads(output.read_bytes())
    output.unlink()
    found: list[Any] = run["results"]
    return found


@pytest.mark.parametrize("sandbox", ["safe", "developer"])
def test_signed_requests_are_accepted(
    collection: Path, variables: dict[str, str], sandbox: str
) -> None:
    made, listed, verified, canceled, customer, upload = (
        each["response"] | {"error": each["error"]}
        for each in results(collection, variables, "--sandbox", sandbox)
    )
    trx_id = made["data"]["trx_id"]
    assert [each["trx_id"] for each in listed["data"]["data"]] == [trx_id]
    assert verified["data"]["trx_id"] == trx_id
    assert canceled["data"]["trx_id"] == trx_id
    assert customer["data"]["error_code"] == "CUSTOMER_NOT_FOUND"
    assert "Bruno cannot sign forms" in upload["error"]


def test_a_wrong_secret_is_rejected(collection: Path, variables: dict[str, str]) -> None:
    *signed, _ = results(collection, {**variables, "api_secret": "test_wrong"})
    for result in signed:
        assert result["response"]["status"] == 401
        assert result["response"]["data"]["errors"] == {
            "X-Signature": "The signature does not match."
        }
