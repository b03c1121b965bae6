"""Combines screenshots of the twenty most used pages into one picture for docs/design-pages.md."""

import io
from pathlib import Path

from PIL import Image, ImageDraw
from playwright.sync_api import Page

WIDTH = 250  # the width of each page in the picture, in pixels
COLUMNS, GAP, LABEL_HEIGHT = 5, 12, 18
COLORS = 96
DESKTOP, PHONE = (1280, 800), (390, 844)

DASHBOARD, CONSOLE = "/dashboard/production", "/console"
ON_DESKTOP = {
    "Home": DASHBOARD,
    "Payments": f"{DASHBOARD}/payments",
    "Payouts": f"{DASHBOARD}/payouts",
    "New payout": f"{DASHBOARD}/payouts/new",
    "Payout files": f"{DASHBOARD}/payouts/bulk",
    "Wallets": f"{DASHBOARD}/wallets",
    "Settlements": f"{DASHBOARD}/settlements",
    "Payment links": f"{DASHBOARD}/links",
    "Credentials": f"{DASHBOARD}/credentials",
    "Team": "/dashboard/team",
    "Overview": f"{CONSOLE}/",
    "Transactions": f"{CONSOLE}/transactions",
    "Merchants": f"{CONSOLE}/merchants",
    "Rails": f"{CONSOLE}/rails",
    "Cases": f"{CONSOLE}/cases",
}
ON_PHONE = {
    "Home, phone": DASHBOARD,
    "Payments, phone": f"{DASHBOARD}/payments",
    "Payouts, phone": f"{DASHBOARD}/payouts",
    "Wallets, phone": f"{DASHBOARD}/wallets",
}


class ContactSheet:
    def __init__(self) -> None:
        self._pages: list[tuple[str, Image.Image]] = []

    def add(self, label: str, page: Page) -> None:
        image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        self._pages.append((label, image))

    def save(self, path: Path) -> None:
        """Arranges the screenshots in rows of the same height, and saves the picture."""
        height = WIDTH * DESKTOP[1] // DESKTOP[0]
        rows = -(-len(self._pages) // COLUMNS)
        size = (COLUMNS * (WIDTH + GAP) + GAP, rows * (height + LABEL_HEIGHT + GAP) + GAP)
        sheet = Image.new("RGB", size, "#d8dcda")
        draw = ImageDraw.Draw(sheet)
        for number, (label, image) in enumerate(self._pages):
            left = GAP + number % COLUMNS * (WIDTH + GAP)
            top = GAP + number // COLUMNS * (height + LABEL_HEIGHT + GAP)
            draw.text((left, top), label, fill="#222222")
            reduced = image.resize(
                (image.width * height // image.height, height), Image.Resampling.LANCZOS
            )
            sheet.paste(reduced, (left, top + LABEL_HEIGHT))
        sheet.quantize(COLORS).save(path, optimize=True)
