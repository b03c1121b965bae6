"""Draws documents with tables as A4 PDFs. Importing the PDF library takes long."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from fpdf import FPDF
from fpdf.enums import XPos, YPos
from fpdf.fonts import FontFace, TTFFont

FONTS = Path(str(resources.files("manilla"))) / "web" / "fonts"
FAMILY = "dejavu"
MISSING = "\N{REPLACEMENT CHARACTER}"


def start(title: str) -> FPDF:
    pdf = FPDF(format="A4")
    pdf.add_font(FAMILY, "", FONTS / "DejaVuSans.ttf")
    pdf.add_font(FAMILY, "B", FONTS / "DejaVuSans-Bold.ttf")
    pdf.set_title(title)
    pdf.set_creator("Manilla")
    pdf.set_lang("en")
    pdf.add_page()
    return pdf


def write(pdf: FPDF, text: str, size: float, style: str = "") -> None:
    pdf.set_font(FAMILY, style, size)
    pdf.multi_cell(0, size * 0.55, _supported(pdf, text), new_x=XPos.LMARGIN, new_y=YPos.NEXT)


def table(
    pdf: FPDF,
    widths: Sequence[int],
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    first_right: int,
    size: float = 7,
) -> None:
    """Draws a table. Columns from the index `first_right` on are right-aligned."""
    pdf.set_font(FAMILY, "", size)
    aligned = ["LEFT"] * first_right + ["RIGHT"] * (len(widths) - first_right)
    style = FontFace(emphasis="BOLD")
    with pdf.table(
        col_widths=tuple(widths), headings_style=style, line_height=4, text_align=tuple(aligned)
    ) as drawn:
        for row in (headings, *rows):
            drawn.row([_supported(pdf, cell) for cell in row])


def _supported(pdf: FPDF, text: str) -> str:
    """Replaces characters that the font lacks with a visible placeholder."""
    font = pdf.current_font
    assert isinstance(font, TTFFont)
    return "".join(each if ord(each) in font.cmap else MISSING for each in text)
