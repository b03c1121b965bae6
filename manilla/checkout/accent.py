"""The checkout style sheet with a merchant's color, readable in light and dark mode.

The merchant's color is the background of the payment summary, with black or white text. Links and
buttons use a shade of the color that has enough contrast with the page's background.
"""

import re

import msgspec

from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler

PATH = "/static/checkout-accent"
READABLE = 4.5  # the minimum text contrast of WCAG 2.2 AA
# The background colors of a card and of a tinted card, in light mode and in dark mode.
LIGHT, DARK = ("ffffff", "eef1f3"), ("16211c", "20292d")
BLACK, WHITE = "000000", "ffffff"
DEFAULT = "0b3d2e"  # the color in checkout.css
FOR_EVER = {"Cache-Control": "max-age=31536000, public, immutable"}
_FILE = re.compile(r"([0-9a-f]{6})\.css")

Color = tuple[float, float, float]


def url(accent: str) -> str:
    return f"{PATH}/{accent}.css"


def handler() -> UrlHandler:
    async def send(request: WebRequest) -> PageResponse:
        found = _FILE.fullmatch(str(request.parameters["file"]))
        if found is None:
            raise PageNotFound
        return PageResponse(style(found[1]).encode(), media_type="text/css", headers=FOR_EVER)

    return UrlHandler("GET", PATH + "/{file:str}", send)


class Preview(msgspec.Struct, frozen=True):
    """The colors with which checkout appears in light or dark mode, such as `#0b5d4e`."""

    mode: str
    card: str
    panel: str
    on_panel: str
    brand: str
    on_brand: str


def previews(accent: str) -> list[Preview]:
    modes = (("light", LIGHT, BLACK), ("dark", DARK, WHITE))
    shades = [(mode, at[0], readable(accent, at, towards)) for mode, at, towards in modes]
    return [
        Preview(
            mode,
            *(f"#{color}" for color in (card, accent, text_on(accent), shade, text_on(shade))),
        )
        for mode, card, shade in shades
    ]


def style(accent: str) -> str:
    text = text_on(accent)
    panel = (
        f"--panel:#{accent};--on-panel:#{text};--on-panel-quiet:#{text};"
        f"--panel-line:color-mix(in srgb,#{accent} 70%,#{text});"
    )
    return (
        f":root{{{panel}{_shades(accent, LIGHT, BLACK)}}}\n"
        f"@media(prefers-color-scheme:dark){{:root{{{panel}{_shades(accent, DARK, WHITE)}}}}}\n"
        ".summary :is(a,summary):focus-visible{outline-color:var(--on-panel)}\n"
        ".summary .soon [role=timer]{color:inherit;text-decoration:underline}\n"
        ".initial{color:var(--panel);background:var(--on-panel)}\n"
    )


def _shades(accent: str, backgrounds: tuple[str, str], towards: str) -> str:
    shade = readable(accent, backgrounds, towards)
    return (
        f"--brand:#{shade};--brand-hover:#{shade};--on-brand:#{text_on(shade)};"
        f"--tint:#{backgrounds[1]};"
    )


def readable(accent: str, backgrounds: tuple[str, ...], towards: str) -> str:
    """Darkens or lightens the color until it is readable as text on all these backgrounds."""
    for percent in range(0, 101, 2):
        shade = _mix(accent, towards, percent / 100)
        if all(contrast(shade, background) >= READABLE for background in backgrounds):
            return shade
    return towards


def text_on(color: str) -> str:
    """Returns black or white, depending on which has more contrast with the color."""
    return max((WHITE, BLACK), key=lambda text: contrast(text, color))


def contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    red, green, blue = (_linear(part / 255) for part in _parts(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def _mix(one: str, other: str, share: float) -> str:
    pairs = zip(_parts(one), _parts(other), strict=True)
    return "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _parts(color: str) -> Color:
    red, green, blue = (int(color[start : start + 2], 16) for start in (0, 2, 4))
    return red, green, blue
