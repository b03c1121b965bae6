"""Validates events against the part of OCSF's published schema in `ocsf_schema.json`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = json.loads((Path(__file__).parent / "ocsf_schema.json").read_text())
NUMBERS = ("integer_t", "long_t", "timestamp_t", "port_t")


def errors(event: dict[str, Any]) -> list[str]:
    kind, profiles = SCHEMA["classes"][str(event["class_uid"])], event["metadata"]["profiles"]
    found = list(_errors(event, kind, "event"))
    needed = {kind["attributes"].get(name, {}).get("profile") for name in event} - {None}
    return found + [f"the profile {name} is missing" for name in needed - set(profiles)]


def _errors(value: dict[str, Any], kind: dict[str, Any], path: str) -> Iterator[str]:
    known = kind["attributes"]
    yield from (f"{path}.{name} is unknown" for name in value if name not in known)
    for name, attribute in known.items():
        if attribute.get("required") and name not in value:
            yield f"{path}.{name} is missing"
        if name in value:
            yield from _attribute_errors(value[name], attribute, f"{path}.{name}")
    if kind["at_least_one"] and not set(kind["at_least_one"]) & set(value):
        yield f"{path} needs one of {kind['at_least_one']}"


def _attribute_errors(value: Any, attribute: dict[str, Any], path: str) -> Iterator[str]:
    wanted = attribute["type"]
    if "enum" in attribute and value not in attribute["enum"]:
        yield f"{path} is not one of {attribute['enum']}"
    if wanted == "object":
        return  # any object
    if wanted in SCHEMA["objects"]:
        yield from _errors(value, SCHEMA["objects"][wanted], path)
    elif not all(
        isinstance(each, int if wanted in NUMBERS else str)
        for each in (value if attribute.get("array") else [value])
    ):
        yield f"{path} is not a {wanted}"
