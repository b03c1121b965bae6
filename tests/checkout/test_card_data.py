"""Neither checkout nor the API asks for card data: customers type it on the provider's page."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import Site

CARD_DATA = re.compile(
    r"card_?(number|no|holder|name)|\bpan\b|cvv|cvc|security_?code|expiry_?(date|month|year)|cc-",
    re.IGNORECASE,
)
FIELD = re.compile(r"<(?:input|select|textarea)\b[^>]*>", re.IGNORECASE)


def test_no_field_of_checkout_is_for_card_data(project: Path) -> None:
    pages = sorted((project / "manilla/checkout/templates").glob("*.html"))
    fields = [field for page in pages for field in FIELD.findall(page.read_text())]
    assert len(fields) > 3
    assert [field for field in fields if CARD_DATA.search(field)] == []


@pytest.mark.parametrize("field", ['<input autocomplete="cc-number">', '<input name="cvv">'])
def test_a_field_for_card_data_would_be_found(field: str) -> None:
    assert CARD_DATA.search(field)


async def test_no_field_of_the_api_is_for_card_data(site: Site) -> None:
    document = (await site.send("GET", "/api/openapi.json")).json
    names = set(_names(document))
    assert "amount" in names
    assert [name for name in names if CARD_DATA.search(name)] == []


def _names(part: Any) -> set[str]:
    """Returns the names of all properties and parameters in the API description."""
    if isinstance(part, list):
        return {name for each in part for name in _names(each)}
    if not isinstance(part, dict):
        return set()
    properties = part.get("properties")
    own = set(properties) if isinstance(properties, dict) else set()
    if "in" in part and isinstance(part.get("name"), str):
        own.add(part["name"])
    return own.union(*(_names(each) for each in part.values()))
