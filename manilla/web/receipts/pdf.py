"""Renders a receipt as an A5 PDF, in the pages' font.

This runs in an isolated process, because it takes a third of a second of the processor.
"""

from importlib import resources
from io import BytesIO
from pathlib import Path

import segno
from fpdf import FPDF
from fpdf.enums import Align, XPos, YPos
from fpdf.fonts import TTFFont

from manilla.languages import language as languages
from manilla.web.receipts.receipt import Receipt

FONTS = Path(str(resources.files("manilla.web"))) / "fonts"
FAMILY = "inter"
FALLBACK = "dejavu"  # has characters of more scripts
REGULAR = {"Inter": "Inter-Regular.ttf", "DejaVuSans": "DejaVuSans.ttf"}
WIDTH, HEIGHT, MARGIN = 148, 210, 14  # the size and margin of an A5 page, in millimeters
INNER = WIDTH - 2 * MARGIN
LABELS, QR_SIZE = 34, 30
LOGO_WIDTH, LOGO_HEIGHT = 40, 14
INK, QUIET, LINE = (23, 33, 28), (91, 106, 99), (205, 212, 206)
TONES = {"green": (23, 102, 63), "yellow": (122, 82, 0), "red": (161, 27, 27)}
MISSING = "\N{REPLACEMENT CHARACTER}"


def draw(receipt: Receipt, site_name: str) -> bytes:
    pdf = FPDF(format=(WIDTH, HEIGHT))
    pdf.set_margins(MARGIN, MARGIN)
    pdf.set_auto_page_break(auto=False)
    for family, name in ((FAMILY, "Inter"), (FALLBACK, "DejaVuSans")):
        pdf.add_font(family, "", FONTS / REGULAR[name])
        pdf.add_font(family, "B", FONTS / f"{name}-Bold.ttf")
    pdf.set_fallback_fonts([FALLBACK])
    pdf.set_title(f"{receipt.title} {receipt.trx_id}")
    pdf.set_creator("Manilla")
    pdf.set_lang(receipt.language)
    pdf.add_page()
    _head(pdf, receipt, site_name)
    _amount(pdf, receipt)
    for group in receipt.groups:
        _rule(pdf)
        for label, value in group:
            _line(pdf, label, value)
    _foot(pdf, receipt)
    return bytes(pdf.output())


def _head(pdf: FPDF, receipt: Receipt, site_name: str) -> None:
    _ = languages.find(receipt.language).gettext
    if receipt.logo is not None:
        pdf.image(BytesIO(receipt.logo), h=LOGO_HEIGHT, w=LOGO_WIDTH, keep_aspect_ratio=True)
        pdf.ln(2)
    _text(pdf, 13, INK, "B")
    _write(pdf, receipt.merchant_name, 6)
    _text(pdf, 8.5, QUIET)
    _write(pdf, _("%(title)s · by %(site)s") % {"title": receipt.title, "site": site_name}, 5)
    if receipt.is_sandbox:
        _text(pdf, 8.5, TONES["yellow"], "B")
        _write(pdf, _("Sandbox: no real money moved."), 5)
    if receipt.support:
        _text(pdf, 8.5, QUIET)
        _write(pdf, f"{_('Questions?')} {receipt.support}", 5)
    pdf.ln(5)


def _amount(pdf: FPDF, receipt: Receipt) -> None:
    _text(pdf, 24, INK, "B")
    _write(pdf, receipt.amount, 11)
    _text(pdf, 10, TONES.get(receipt.tone, INK), "B")
    _write(pdf, receipt.state, 6)
    _text(pdf, 9, QUIET)
    _write(pdf, receipt.when, 5)
    pdf.ln(2)


def _rule(pdf: FPDF) -> None:
    pdf.ln(2)
    pdf.set_draw_color(*LINE)
    pdf.set_line_width(0.25)
    pdf.line(MARGIN, pdf.get_y(), WIDTH - MARGIN, pdf.get_y())
    pdf.ln(2)


def _line(pdf: FPDF, label: str, value: str) -> None:
    top = pdf.get_y()
    _text(pdf, 8.5, QUIET)
    pdf.cell(LABELS, 5.4, _supported(pdf, label))
    _text(pdf, 9, INK)
    pdf.set_xy(MARGIN + LABELS, top)
    _write(pdf, value, 5.4, width=INNER - LABELS, align=Align.R)
    pdf.set_x(MARGIN)


def _foot(pdf: FPDF, receipt: Receipt) -> None:
    _ = languages.find(receipt.language).gettext
    top = pdf.h - MARGIN - QR_SIZE
    if pdf.get_y() > top - 2:
        pdf.add_page()
    _qr(pdf, receipt.verification_url, MARGIN, top)
    width = INNER - QR_SIZE - 5
    pdf.set_xy(MARGIN + QR_SIZE + 5, top + 2)
    _text(pdf, 9, INK, "B")
    _write(pdf, _("Is this receipt genuine?"), 5.5, width=width)
    _text(pdf, 8, QUIET)
    instruction = _("Scan the code to see the current status of this transaction:")
    _write(pdf, f"{instruction} {receipt.verification_url}", 4.2, width=width)


def _write(
    pdf: FPDF, text: str, height: float, *, width: float = INNER, align: Align = Align.L
) -> None:
    """Writes text in lines of this width, then moves the cursor below the text."""
    pdf.multi_cell(
        width, height, _supported(pdf, text), align=align, new_x=XPos.LEFT, new_y=YPos.NEXT
    )


def _qr(pdf: FPDF, address: str, left: float, top: float) -> None:
    """Draws the QR code as vector shapes, which are sharp at any size."""
    rows = list(segno.make(address, error="m").matrix_iter(border=0))
    module = QR_SIZE / len(rows)
    pdf.set_fill_color(0, 0, 0)
    for y, row in enumerate(rows):
        for x, is_dark in enumerate(row):
            if is_dark:
                pdf.rect(left + x * module, top + y * module, module + 0.02, module + 0.02, "F")


def _text(pdf: FPDF, size: float, colour: tuple[int, int, int], style: str = "") -> None:
    pdf.set_font(FAMILY, style, size)
    pdf.set_text_color(*colour)


def _supported(pdf: FPDF, text: str) -> str:
    """Replaces characters that the fonts lack with a visible placeholder."""
    known = [font.cmap for font in pdf.fonts.values() if isinstance(font, TTFFont)]
    return "".join(each if any(ord(each) in cmap for cmap in known) else MISSING for each in text)
