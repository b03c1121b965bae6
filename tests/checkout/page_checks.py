"""Opens pages in a browser and fails on any console message, script error or failed request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, Page, Request, Route

SHOP_PAGE = '<!doctype html><link rel="icon" href="data:,"><title>The shop</title>'

# The browser logs an error for a page with a status of 400 or higher, and for blocked autofocus.
EXPECTED_MESSAGES = (
    "Failed to load resource: the server responded with a status of",
    "Autofocus processing was blocked because a document already has a focused element",
)


@asynccontextmanager
async def opened(
    browser: Browser,
    address: str,
    *,
    width: int = 390,
    scheme: str = "light",
    scripts: bool = True,
) -> AsyncIterator[Page]:
    """Opens a page, and fails on any browser message. Requests to the shop get a fixed response."""
    context = await browser.new_context(
        viewport={"width": width, "height": 844},
        color_scheme=scheme,  # type: ignore[arg-type]
        java_script_enabled=scripts,
    )
    page = await context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: _note(problems, message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: _note_failure(problems, request))
    await page.route("https://shop.example/**", _shop)
    await page.goto(address)
    yield page
    assert not problems, problems
    await context.close()


def _note(problems: list[str], text: str) -> None:
    if not text.startswith(EXPECTED_MESSAGES):
        problems.append(text)


def _note_failure(problems: list[str], request: Request) -> None:
    """Records a failed request, unless it was aborted because the user left the page."""
    if request.failure != "net::ERR_ABORTED":
        problems.append(request.url)


async def _shop(route: Route) -> None:
    await route.fulfill(body=SHOP_PAGE, content_type="text/html")


async def accessibility_violations(page: Page, *rules: str) -> list[str]:
    """Returns the page's axe violations, including best practices.

    `rules` limits the check to these rules.
    """
    await page.wait_for_load_state()  # A click returns before the next page has loaded.
    # A sandboxed frame runs no scripts, so axe cannot check its content.
    options: dict[str, object] = {"resultTypes": ["violations"], "iframes": False}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    found = (await Axe().run(page, options=options)).response["violations"]
    return [f"{fault['id']}: {node['html']}" for fault in found for node in fault["nodes"]]


async def overflow(page: Page, width: int) -> int:
    await page.set_viewport_size({"width": width, "height": 844})
    return int(await page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


async def is_visibly_focused(page: Page) -> bool:
    return bool(
        await page.evaluate(
            "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
            " && document.activeElement !== document.body"
        )
    )
