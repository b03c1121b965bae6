import pytest
from playwright.async_api import Browser

from manilla.services import Services
from manilla.web.routes import Route
from tests.dashboard.conftest import PopulatedMerchant
from tests.web.accessibility import SCREENS, TYPICAL, problems


@pytest.mark.parametrize(("width", "scheme", "only_typical"), SCREENS)
async def test_every_page_is_accessible(
    browser: Browser,
    services: Services,
    populated: PopulatedMerchant,
    table: list[Route],
    width: int,
    scheme: str,
    only_typical: bool,
) -> None:
    """Checks some pages in a browser. `test_every_route.py` checks all pages without a browser."""
    checked = [route for route in table if not only_typical or route.path in TYPICAL]
    visitor, samples = populated.owner, populated.samples
    found = await problems(browser, services.base_url, visitor, checked, samples, width, scheme)
    assert not found, "\n".join(found)
