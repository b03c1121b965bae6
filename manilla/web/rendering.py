"""The Jinja environment, with autoescaping and with filters for money, times and statuses."""

import re
from collections import Counter
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import jinja2

from manilla.kit.display import duration, percentage, with_symbols
from manilla.people.roles import Permission
from manilla.prices.wording import tax_title
from manilla.web import display, static_files

TEMPLATES = Path(str(resources.files("manilla.web"))) / "templates"


def environment(folder: Path) -> jinja2.Environment:
    """Returns a Jinja environment that loads templates from `folder` or the shared templates."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # templates do not change while the process runs
    )
    made.filters.update(
        money=display.money,
        moment=display.moment,
        short_moment=display.short_moment,
        badge=display.badge,
        browser=display.browser,
        clean=display.clean,
        duration=duration,
        percentage=percentage,
        shorten=display.shorten,
        titled=display.title,
        render_backticks=display.render_backticks,
        changes=display.describe_changes,
        with_symbols=with_symbols,
    )
    made.globals.update(
        minor=display.minor,
        tax_title=tax_title,
        error_place=error_place,
        Permission=Permission,
        static=static_files.url(static_files.STATIC),
        fonts=static_files.url(static_files.FONTS) + "/fonts",
    )
    return made


def unique_names() -> Callable[[str], str]:
    """Returns a function that makes names unique within a page by numbering repeated names.

    Two forms on a page may have fields with the same name, but element ids must be unique.
    """
    used: Counter[str] = Counter()

    def unique(name: str) -> str:
        used[name] += 1
        return name if used[name] == 1 else f"{name}-{used[name]}"

    return unique


def error_place(name: str, body: str) -> str:
    """Returns the id suffix of the element that shows a field's error, or "" if there is none."""
    found = re.search(f'id="h-({re.escape(name)}(-[0-9]+)?)"', body)
    return found[1] if found else ""
