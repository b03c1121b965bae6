"""The published signature test vectors match our code and independent implementations."""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from manilla.api.authenticate import sign

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "clients" / "contract" / "signatures.json").read_text()
)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_our_signature_matches_the_published_vectors(vector: dict[str, Any]) -> None:
    ours = sign(
        vector["secret"].encode(),
        int(vector["timestamp"]),
        vector["method"],
        vector["path"],
        vector["body"].encode(),
    )
    independent = hmac.new(
        vector["secret"].encode(), vector["signed_string"].encode(), hashlib.sha256
    )
    assert ours == vector["signature"] == independent.hexdigest()


def test_the_vectors_cover_the_most_common_mistakes() -> None:
    assert any(not vector["body"].isascii() for vector in VECTORS)
    assert any("%" in vector["path"] for vector in VECTORS)
    assert any("?" in vector["path"] for vector in VECTORS)
