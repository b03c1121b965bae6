"""Makes text from other systems safe to print."""

import json
from collections.abc import Mapping

from manilla_client import exact_json


def printable(text: str) -> str:
    """Escapes characters that could control the terminal, but keeps line breaks."""
    return "".join(
        each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text
    )


def print_fields(fields: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print(exact_json.dumps(fields))
        return
    width = max(map(len, fields))
    for name, value in fields.items():
        print(f"{name:<{width}}  {'-' if value is None else printable(str(value))}")
