import pytest
from playwright.async_api import Browser

from manilla.services import Services
from manilla.web.routes import Route
from tests.console.conftest import PopulatedConsole
from tests.web.accessibility import PHONE, SCREENS, TYPICAL, problems

FINGER = 24  # the minimum of WCAG 2.2, in pixels


@pytest.mark.parametrize(("width", "scheme", "only_typical"), SCREENS)
async def test_every_page_is_accessible(
    browser: Browser,
    services: Services,
    populated: PopulatedConsole,
    table: list[Route],
    width: int,
    scheme: str,
    only_typical: bool,
) -> None:
    """Checks some pages in a browser. `test_every_route.py` checks all pages without a browser."""
    checked = [route for route in table if not only_typical or route.path in TYPICAL]
    visitor, samples = populated.administrator, populated.samples
    found = await problems(browser, services.base_url, visitor, checked, samples, width, scheme)
    assert not found, "\n".join(found)


async def test_links_and_summaries_are_high_enough_for_a_finger(
    browser: Browser, services: Services, populated: PopulatedConsole
) -> None:
    context = await browser.new_context(viewport={"width": PHONE, "height": 844})
    await populated.administrator.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/console/refunds?environment=sandbox")
    details = "<details><summary>Response</summary></details>"
    add = "text => document.querySelector('main').insertAdjacentHTML('beforeend', text)"
    await page.evaluate(add, details + details)
    targets = page.locator(".rows .row-link, .rows .at-aside a, main summary")
    read = "all => all.map(each => each.getBoundingClientRect().height)"
    heights = [height for height in await targets.evaluate_all(read) if height]  # 0: hidden
    assert len(heights) >= 4
    assert min(heights) >= FINGER
    await context.close()


@pytest.mark.long
@pytest.mark.parametrize("width", [PHONE, 1280])
@pytest.mark.parametrize("provider", ["flutterwave", "kora", "monnify", "paystack"])
async def test_every_guide_is_accessible(
    browser: Browser,
    services: Services,
    populated: PopulatedConsole,
    table: list[Route],
    provider: str,
    width: int,
) -> None:
    guides = [route for route in table if route.path.endswith("/guide")]
    sample, visitor = {"provider": provider}, populated.administrator
    found = await problems(browser, services.base_url, visitor, guides, sample, width, "light")
    assert not found, "\n".join(found)
