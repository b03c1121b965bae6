"""Creates the pictures for README.md, docs/design-pages.md and the front page: `make pictures`.

The script starts an instance with a temporary data folder, waits until the demo history is
complete, and takes screenshots of the checkout, the dashboard and the console in Chromium.
"""

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

from manilla_client import Client, Credentials
from manilla_simulator.history import file
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support import browser
from tests.support.instance import Instance
from tools import contact_sheet
from tools.contact_sheet import DESKTOP, PHONE

IMAGES = Path("docs/images")
BYTES_MAX = 200_000
COLORS = 192
# The path and size of the picture on the site's front page.
FRONT, FRONT_SIZE = Path("manilla/pages/static/front.png"), (1280, 760)
READY_SECONDS = 900
# The name, page, width and height of each picture in docs/design-pages.md.
COMPONENTS = (
    ("design-list-390", "/payments", (390, 560)),
    ("design-list-768", "/payments", (768, 480)),
    ("design-list-1280", "/payments", (1280, 520)),
    ("design-home", "?period=30days", (1280, 760)),
)


def main() -> None:
    with _instance() as instance, sync_playwright() as playwright:
        url = f"http://127.0.0.1:{instance.port}"
        with Client(url, _credentials(instance)) as client:
            checkout = _payment(client)
        chromium = playwright.chromium.launch(executable_path=browser.find(), args=["--no-sandbox"])
        _photograph(chromium, "checkout", checkout, PHONE)
        _photograph(chromium, "dashboard", f"{url}/dashboard/production", DESKTOP)
        _photograph(chromium, "console", f"{url}/console/", DESKTOP)
        _make_contact_sheet(chromium, url, checkout)
        _photograph(chromium, FRONT, f"{url}/dashboard/production?period=30days", FRONT_SIZE)
        for name, path, size in COMPONENTS:
            _photograph(chromium, name, f"{url}/dashboard/production{path}", size)
        chromium.close()


@contextmanager
def _instance() -> Iterator[Instance]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        instance = Instance(data, "--demo-history", is_first_start=True).wait(READY_SECONDS)
        try:
            _wait_for_history(instance)
            yield instance
        finally:
            instance.stop()


def _wait_for_history(instance: Instance) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while (history := file.read(instance.folder)) is None or not history.is_complete:
        assert time.monotonic() < deadline, "the demo history is not complete yet"
        time.sleep(1)


def _credentials(instance: Instance) -> Credentials:
    """Reads the demo merchant's production keys from the output of `manilla up`."""
    printed = instance.output.read_text()
    names = ("merchant_key", "api_key", "api_secret")
    return Credentials(
        *(re.findall(rf"^ *{name} +\w+ +(\w+)", printed, re.MULTILINE)[0] for name in names)
    )


def _payment(client: Client) -> str:
    return client.initiate_payment(
        payment_amount=Decimal("1500.50"),
        currency_code="NGN",
        ref_trx="ORDER-1",
        success_redirect="https://shop.example/paid",
        cancel_redirect="https://shop.example/basket",
        ipn_url="http://127.0.0.1:9/ipn",
        description="Two books",
        customer_name="Ada Obi",
        customer_email="ada.obi@example.com",
    ).payment_url


def _photograph(chromium: Browser, name: str | Path, url: str, size: tuple[int, int]) -> None:
    path = name if isinstance(name, Path) else IMAGES / f"{name}.png"
    page = _new_page(chromium, size)
    _open(page, url)
    page.screenshot(path=path)
    page.close()
    Image.open(path).quantize(COLORS).save(path, optimize=True)
    _check_size(path)


def _make_contact_sheet(chromium: Browser, url: str, checkout: str) -> None:
    sheet = contact_sheet.ContactSheet()
    for size, pages in ((DESKTOP, contact_sheet.ON_DESKTOP), (PHONE, contact_sheet.ON_PHONE)):
        page = _new_page(chromium, size)
        for label, address in pages.items():
            _open(page, url + address)
            sheet.add(label, page)
        page.close()
    page = _new_page(chromium, PHONE)
    _open(page, checkout)
    sheet.add("Checkout, phone", page)
    page.close()
    path = IMAGES / "contact-sheet.png"
    sheet.save(path)
    _check_size(path)


def _new_page(chromium: Browser, size: tuple[int, int]) -> Page:
    viewport = {"width": size[0], "height": size[1]}
    return chromium.new_page(viewport=viewport, color_scheme="light")  # type: ignore[arg-type]


def _open(page: Page, url: str) -> None:
    page.goto(url)
    _sign_in(page, url)
    page.wait_for_load_state("networkidle")
    page.evaluate("document.fonts.ready")


def _check_size(path: Path) -> None:
    assert path.stat().st_size < BYTES_MAX, f"{path} has {path.stat().st_size:,} bytes"
    print(f"{path}: {path.stat().st_size:,} bytes")


def _sign_in(page: Page, url: str) -> None:
    """Signs in as the demo user if the page requires a sign-in."""
    if "/sign-in" in page.url:
        page.get_by_role("button", name="Continue").click()
        page.goto(url)


if __name__ == "__main__":
    main()
