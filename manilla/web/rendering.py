"""The template environment: autoescaping, and template filters for money, times and statuses."""

from importlib import resources
from pathlib import Path

import jinja2

from manilla.kit.display import duration
from manilla.people.roles import Permission
from manilla.web import display, static_files

TEMPLATES = Path(str(resources.files("manilla.web"))) / "templates"


def environment(folder: Path) -> jinja2.Environment:
    """Builds an environment that finds a package's own templates first, then the shared ones."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        money=display.money,
        moment=display.moment,
        short_moment=display.short_moment,
        badge=display.badge,
        browser=display.browser,
        clean=display.clean,
        duration=duration,
        shortened=display.shortened,
        titled=display.title,
        changes=display.describe_changes,
    )
    made.globals.update(
        minor=display.minor,
        Permission=Permission,
        static=static_files.url(static_files.STATIC),
        fonts=static_files.url(static_files.FONTS) + "/fonts",
    )
    return made
