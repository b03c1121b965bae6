"""Uses checkout in the dialog that `checkout.js` opens on a shop's page."""

from playwright.async_api import FrameLocator, Page, expect

SUCCESS, WAITING = "Payment successful", "Waiting for your payment"
METHODS, TRANSFER = "How would you like to pay?", "Make a bank transfer"
CLOSE = "Close checkout"


def frame_of(page: Page) -> FrameLocator:
    return page.frame_locator("iframe")


async def sees(place: Page | FrameLocator, text: str) -> None:
    await expect(place.get_by_role("heading", name=text, exact=True)).to_be_visible()


async def press(place: Page | FrameLocator, name: str) -> None:
    await place.get_by_role("button", name=name).click()
