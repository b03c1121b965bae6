"""Opens every page of the dashboard or console, and collects accessibility and layout problems."""

from collections.abc import Mapping, Sequence

import pytest
from playwright.async_api import Browser, Page

from manilla.web.routes import Route
from tests.checkout.page_checks import EXPECTED_MESSAGES, accessibility_violations
from tests.web.route_urls import address
from tests.web.signed_in_user import SignedInUser

PHONE = 390
LONG = pytest.mark.long
SCREENS = [
    pytest.param(PHONE, "dark", True, id="typical pages"),
    pytest.param(PHONE, "dark", False, id="phone", marks=LONG),
    pytest.param(1280, "light", False, id="desktop", marks=LONG),
]
# The routes of one list and one form, in the dashboard and in the console.
TYPICAL = (
    "/{environment:str}/payments",
    "/{environment:str}/payouts/new",
    "/transactions",
    "/merchants/new",
)
# The results of these accessibility rules can depend on the width and the color scheme.
WIDE_RULES = ("color-contrast", "scrollable-region-focusable", "link-in-text-block", "target-size")


async def problems(
    browser: Browser,
    base_url: str,
    visitor: SignedInUser,
    table: Sequence[Route],
    samples: Mapping[str, str],
    width: int,
    scheme: str,
) -> list[str]:
    """Returns the problems that the browser and axe report, with the page of each problem."""
    found: list[str] = []
    said: list[str] = []
    context = await browser.new_context(
        viewport={"width": width, "height": 844},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    await visitor.enter(context)
    page = await context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    for route in table:
        if route.method == "GET" and route.is_page:
            path = address(route, samples)
            # The console's lists show production by default, but the sample data is in the sandbox.
            shown = "?environment=sandbox" if visitor.realm == "console" else ""
            await page.goto(f"{base_url}/{visitor.realm}{path}{shown}")
            found += [f"{path}: {fault}" for fault in await _problems(page, width)]
            found += [f"{path}: {text}" for text in said if not text.startswith(EXPECTED_MESSAGES)]
            said.clear()
    await context.close()
    return found


async def _problems(page: Page, width: int) -> list[str]:
    faults = await accessibility_violations(page, *(() if width == PHONE else WIDE_RULES))
    beyond = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return [*faults, f"{beyond} px too wide"] if width == PHONE and beyond > 0 else faults
