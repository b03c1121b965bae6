"""Makes the README's pictures from the running product: `make pictures`.

Starts an instance with a temporary data folder, creates payments and payouts of the demo merchant
through the API, and photographs checkout, dashboard and console in Chromium.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Literal

from manilla_client import Client, Credentials
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests import browser
from tests.instance import Instance

IMAGES = Path("docs/images")
BYTES_MAX = 200_000
COLORS = 192
DESKTOP, PHONE = (1280, 800), (390, 844)
READY_SECONDS = 300
Result = Literal["success", "failed", "pending"]
# Customer, amount and result of each payment, oldest first.
PAYMENTS: tuple[tuple[str, str, Result], ...] = (
    ("Chinedu Okafor", "45000.00", "success"),
    ("Ngozi Eze", "12500.00", "success"),
    ("Bola Adeyemi", "7250.50", "failed"),
    ("Aisha Bello", "98000.00", "success"),
    ("Emeka Nwosu", "3400.00", "success"),
    ("Funke Alabi", "61200.75", "success"),
    ("Tunde Bakare", "18900.00", "pending"),
    ("Ada Obi", "1500.50", "success"),
)
PAYOUTS: tuple[tuple[str, str, Result], ...] = (
    ("058", "250000.00", "success"),
    ("044", "87500.00", "success"),
)


def main() -> None:
    with _instance() as instance, sync_playwright() as playwright:
        sandbox, production = _credentials(instance)
        url = f"http://127.0.0.1:{instance.port}"
        with Client(url, sandbox) as client:
            _create_history(client)
        with Client(url, production) as client:
            checkout = _payment(client, "Ada Obi", "1500.50")
        chromium = playwright.chromium.launch(executable_path=browser.find(), args=["--no-sandbox"])
        _photograph(chromium, "checkout", checkout, PHONE)
        _photograph(chromium, "dashboard", f"{url}/dashboard/sandbox", DESKTOP)
        _photograph(chromium, "console", f"{url}/console/?environment=sandbox", DESKTOP)
        chromium.close()


@contextmanager
def _instance() -> Iterator[Instance]:
    with tempfile.TemporaryDirectory() as folder:
        instance = Instance(Path(folder) / "data").wait(READY_SECONDS)
        instance.command("setting", "set", "sandbox_complete_seconds", "0")
        try:
            yield instance
        finally:
            instance.stop()


def _credentials(instance: Instance) -> list[Credentials]:
    """Reads the demo merchant's keys of the sandbox and of production, which `up` prints."""
    printed = instance.output.read_text()
    rows = [
        re.findall(rf"^ *{name} +(\w+) +(\w+)", printed, re.MULTILINE)[0]
        for name in ("merchant_key", "api_key", "api_secret")
    ]
    return [Credentials(*values) for values in zip(*rows, strict=True)]


def _create_history(client: Client) -> None:
    for customer, amount, scenario in PAYMENTS:
        url = _payment(client, customer, amount, scenario)
        if scenario != "pending":
            client.wait_for_payment(url.split("/checkout/")[1].split("?")[0])
    method = client.payout_methods("NGN").by_code("providera_ngn_transfer")
    for number, (bank, amount, scenario) in enumerate(PAYOUTS):
        payout = client.initiate_payout(
            payout_amount=Decimal(amount),
            currency_code="NGN",
            ref_trx=f"SUPPLIER-{number + 1}",
            ipn_url="http://127.0.0.1:9/ipn",
            withdraw_method_id=method.id,
            beneficiary={"bank_code": bank, "account_number": "0123456789"},
            scenario=scenario,
        )
        client.wait_for_payout(payout.trx_id)


def _payment(client: Client, customer: str, amount: str, scenario: Result | None = None) -> str:
    """Creates a payment and returns its checkout URL."""
    name = customer.lower().replace(" ", ".")
    return client.initiate_payment(
        payment_amount=Decimal(amount),
        currency_code="NGN",
        ref_trx=f"ORDER-{name}-{amount}",
        success_redirect="https://shop.example/paid",
        cancel_redirect="https://shop.example/basket",
        ipn_url="http://127.0.0.1:9/ipn",
        description="Two books",
        customer_name=customer,
        customer_email=f"{name}@example.com",
        scenario=scenario,
    ).payment_url


def _photograph(chromium: Browser, name: str, url: str, size: tuple[int, int]) -> None:
    viewport = {"width": size[0], "height": size[1]}
    page = chromium.new_page(viewport=viewport, color_scheme="light")  # type: ignore[arg-type]
    page.goto(url)
    _sign_in(page, url)
    page.wait_for_load_state("networkidle")
    page.evaluate("document.fonts.ready")
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    page.close()
    Image.open(path).quantize(COLORS).save(path, optimize=True)
    assert path.stat().st_size < BYTES_MAX, f"{path} has {path.stat().st_size:,} bytes"
    print(f"{path}: {path.stat().st_size:,} bytes")


def _sign_in(page: Page, url: str) -> None:
    """Signs in as the demo user, if the page needs it."""
    if "/sign-in" in page.url:
        page.get_by_role("button", name="Continue").click()
        page.goto(url)


if __name__ == "__main__":
    main()
