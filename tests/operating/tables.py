"""Generates the tables in the documents from the code. `make docs` rewrites them."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import Counter, Gauge, Histogram

from manilla import metrics
from manilla.platform import settings
from manilla.platform.settings import ADDRESSES, WEEKDAYS, PlatformSettings
from manilla.variables import VARIABLES
from tools import capacity, growth, proof
from tools.proof import table

ROOT = Path(__file__).parents[2]
SUFFIXES: dict[Any, tuple[str, ...]] = {
    Counter: ("_total",),
    Gauge: ("",),
    Histogram: ("_bucket", "_count", "_sum"),
}


def variables() -> str:
    rows = [
        (
            f"`{each.name}`" + (" ([secret](#secrets))" if each.is_secret else ""),
            each.default,
            each.meaning,
        )
        for each in VARIABLES
    ]
    return table(("Variable", "Default", "Meaning"), rows)


def platform_settings() -> str:
    rows = [
        (
            f"`{each.key}`",
            f"`{each.default}`" if each.default else "empty",
            _values(each.key),
            each.explanation,
        )
        for each in settings.describe(PlatformSettings())
    ]
    return table(("Setting", "Default", "Values", "Meaning"), rows)


def _values(key: str) -> str:
    if key == "payout_days":
        return f"any of `{','.join(WEEKDAYS)}`; empty: no day"
    if key == "adjustment_limits":
        return "a whole number of major units for each currency, such as `NGN:10000000,USD:10000`"
    bounds = settings.bounds(key)
    if bounds.is_switch:
        return "`true`, `false`"
    if bounds.values:
        return ", ".join(f"`{value}`" for value in bounds.values)
    if bounds.is_number:
        return f"{bounds.least} to {bounds.most}"
    length = f"{bounds.least} to {bounds.most}" if bounds.least else f"up to {bounds.most}"
    address = "an address with `https://` or `http://`, " if key in ADDRESSES else ""
    return f"{address}{length} characters"


def collectors() -> list[Any]:
    found = [
        each for each in vars(metrics).values() if isinstance(each, Counter | Gauge | Histogram)
    ]
    return sorted(found, key=lambda each: each._name)


def exposed() -> set[str]:
    """Returns the names of all exported metrics."""
    return {each._name + suffix for each in collectors() for suffix in SUFFIXES[type(each)]}


def metric_table() -> str:
    rows = [
        (
            f"`{each._name}{'_total' if isinstance(each, Counter) else ''}`",
            type(each).__name__.lower(),
            ", ".join(f"`{label}`" for label in each._labelnames) or "-",
            each._documentation,
        )
        for each in collectors()
    ]
    return table(("Metric", "Type", "Labels", "Meaning"), rows)


class Made(msgspec.Struct, frozen=True):
    file: str
    name: str
    make: Callable[[], str]

    def written_into(self, text: str) -> str:
        """Returns the document with the generated table between its two markers."""
        marks = re.compile(
            rf"(<!-- {self.name}: made by `make docs` -->\n\n).*?(\n<!-- end -->)", re.DOTALL
        )
        made = self.make()
        written, number = marks.subn(lambda found: found[1] + made + found[2], text)
        assert number == 1, f"{self.file} has no markers for {self.name}"
        return written


MADE = (
    Made("docs/configuration.md", "variables", variables),
    Made("docs/configuration.md", "platform settings", platform_settings),
    Made("docs/operating/monitoring.md", "metrics", metric_table),
    *(Made("docs/operating/capacity.md", name, make) for name, make in capacity.TABLES.items()),
    Made("docs/operating/growth.md", "growth", growth.operations),
    Made("docs/operating/moving-a-merchant.md", "moves under load", proof.moves),
    *(Made("docs/proof.md", name, make) for name, make in proof.TABLES.items()),
)


def main() -> None:
    for made in MADE:
        file = ROOT / made.file
        file.write_text(made.written_into(file.read_text()))
        sys.stdout.write(f"{made.file}: {made.name}\n")


if __name__ == "__main__":
    main()
