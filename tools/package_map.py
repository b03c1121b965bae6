"""Draws the packages and their imports into `docs/images/packages.svg`: `make docs`.

The packages in each row of the picture import only packages in lower rows. Some rows form a layer,
whose name is at the left. With `--check`, the command fails if the picture is outdated.
"""

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools import structure

PICTURE = Path("docs/images/packages.svg")
# The packages that process a payout, in order from the request to the notification.
PAYOUT = ("api", "payouts", "ledger", "kit", "transfers", "providers", "notify")
# Maps the first package of a layer to the layer's name in ARCHITECTURE.md.
LAYERS = {
    "cli": "Entry points",
    "dashboard": "Pages, API, worker",
    "compliance": "Settlements, proofs",
    "bulk": "Refunds, bulk files",
    "payments": "Payments, payouts",
    "routing": "Routing, beneficiaries",
    "methods": "Transfers, methods",
    "cases": "Merchants, providers",
    "banks": "Ledger, records",
    "job_kinds": "Tools",
}
WIDTH, ROW, HEIGHT, GAP, LETTER = 980, 52, 28, 14, 8
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; text-anchor: middle; }
  rect { fill: #f4f6f8; stroke: #9aa5b1; }
  path { fill: none; stroke: #52606d; stroke-opacity: .13; }
  .payout rect { fill: #d8f3e3; stroke: #0b6b45; }
  line { stroke: #9aa5b1; stroke-opacity: .4; }
  .layer { font-size: 12px; font-weight: 600; text-anchor: start; }
  circle { fill: #0b6b45; }
  .payout .step { fill: #fff; font-size: 11px; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb; } rect { fill: #1f2933; stroke: #616e7c; } path { stroke: #cbd2d9; }
    .payout rect { fill: #0b4a31; stroke: #5fcf9a; }
  }
"""

Place = tuple[float, float]  # the coordinates of the center of a package's box


def main() -> None:
    drawn = draw(rows(), structure.package_imports())
    if "--check" not in sys.argv:
        PICTURE.write_text(drawn)
    elif PICTURE.read_text() != drawn:
        raise SystemExit(f"{PICTURE} is not current. Run `make docs`.")


def rows() -> list[list[str]]:
    """Returns the packages of each row of the import contract, highest row first."""
    settings = tomllib.loads(Path("pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    return [[name.removeprefix("manilla.") for name in layer.split(" | ")] for layer in layers]


def draw(rows: Sequence[Sequence[str]], imports: Mapping[str, set[str]]) -> str:
    places = _places(rows)
    height = len(rows) * ROW + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        ' aria-label="Packages by layer, and the imports between them">',
        f"<style>{STYLE}</style>",
        *_layers(rows),
        *_arrows(places, imports),
        *(_box(name, place) for name, place in places.items()),
        "</svg>\n",
    ]
    return "\n".join(lines)


def _places(rows: Sequence[Sequence[str]]) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for number, names in enumerate(rows):
        left = (WIDTH - sum(map(_width, names)) - GAP * 2 * (len(names) - 1)) / 2
        for name in names:
            places[name] = (left + _width(name) / 2, number * ROW + HEIGHT)
            left += _width(name) + GAP * 2
    return places


def _layers(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, (first, *_) in enumerate(rows):
        if first in LAYERS:
            top, middle = number * ROW + 2, number * ROW + HEIGHT
            yield f'<line x1="0" y1="{top}" x2="{WIDTH}" y2="{top}"/>'
            yield f'<text class="layer" x="4" y="{middle + 4.5:g}">{LAYERS[first]}</text>'


def _width(name: str) -> int:
    return len(name) * LETTER + GAP * 2


def _arrows(places: Mapping[str, Place], imports: Mapping[str, set[str]]) -> Iterator[str]:
    for name, (x, y) in places.items():
        for other in sorted(imports.get(name, set()) & set(places)):
            to_x, to_y = places[other]
            start, end, middle = y + HEIGHT / 2, to_y - HEIGHT / 2, (y + to_y) / 2
            yield (
                f'<path d="M{x:g} {start:g}C{x:g} {middle:g} {to_x:g} {middle:g}'
                f' {to_x:g} {end:g}"/>'
            )


def _box(name: str, place: Place) -> str:
    x, y = place
    left, top = x - _width(name) / 2, y - HEIGHT / 2
    box = (
        f'<rect x="{left:g}" y="{top:g}" width="{_width(name)}" height="{HEIGHT}" rx="6"/>'
        f'<text x="{x:g}" y="{y + 4.5:g}">{name}</text>'
    )
    if name not in PAYOUT:
        return box
    number = PAYOUT.index(name) + 1
    step = f'<text class="step" x="{left:g}" y="{top + 4:g}">{number}</text>'
    return f'<g class="payout">{box}<circle cx="{left:g}" cy="{top:g}" r="8"/>{step}</g>'


if __name__ == "__main__":
    main()
