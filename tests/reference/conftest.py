import pytest

from manilla.kit import strict_json
from manilla.reference.book import Book
from tests.client import Site


@pytest.fixture(scope="session")
async def book(site: Site) -> Book:
    """Of the API as the running site describes it."""
    reply = await site.send("GET", "/api/openapi.json")
    return Book(strict_json.decode(reply.body), is_development=True)
