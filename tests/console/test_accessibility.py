from playwright.async_api import Browser

from manilla.services import Services
from manilla.web.routes import Route
from tests.console.conftest import PopulatedConsole
from tests.web.accessibility import problems


async def test_every_page_is_accessible_on_phone_and_desktop(
    browser: Browser, services: Services, populated: PopulatedConsole, table: list[Route]
) -> None:
    base_url = services.base_url
    found = await problems(browser, base_url, populated.administrator, table, populated.samples)
    assert not found, "\n".join(found)
