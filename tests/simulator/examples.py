"""Compares documented provider responses with the simulator's. See fixtures/README.md."""

import functools
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "fixtures"


def example(provider: str, name: str, origin: str = "documented", **texts: str) -> Any:
    """Returns an example. Each name in `texts` is replaced by its text."""
    found = _examples(provider, origin)[name]
    for placeholder, text in texts.items():
        found = found.replace(placeholder, text)
    return json.loads(found)


@functools.cache
def _examples(provider: str, origin: str) -> dict[str, str]:
    """Returns the JSON of each example in the file, so that a test can change what it gets."""
    examples = json.loads((FOLDER / provider / f"{origin}.json").read_text())
    return {name: json.dumps(value) for name, value in examples.items()}


def assert_like(actual: Any, expected: Any, path: str = "") -> None:
    """Checks that the response has every field of the example with the same JSON type."""
    if expected is None:
        return
    assert _kind(actual) == _kind(expected), path
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert name in actual, f"{path}.{name}"
            assert_like(actual[name], value, f"{path}.{name}")
    if isinstance(expected, list) and expected:
        for item in actual:
            assert_like(item, expected[0], f"{path}[]")
        assert actual, path


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds = {dict: "object", list: "array", str: "string", type(None): "null"}
    return kinds.get(type(value), "number")
