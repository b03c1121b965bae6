from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright

from tests import browser as browsers


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = browsers.find()
    if path is None:
        pytest.skip(browsers.NO_BROWSER)
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield chromium
        await chromium.close()
