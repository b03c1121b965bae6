"""Values of one field with which a provider's response is not conclusive.

Each provider has a JSON file that maps its responses to their fields, and the fields to the values.
"""

import json
from pathlib import Path
from typing import Any


def unknown_values(provider: str) -> list[tuple[str, str, Any]]:
    """Returns the response, the field and the value of each case."""
    text = Path(__file__).parent.joinpath(provider, "unknown_values.json").read_text()
    return [
        (response, field, value)
        for response, fields in json.loads(text).items()
        for field, values in fields.items()
        for value in values
    ]
