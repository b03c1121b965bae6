"""Templates that escape by default, and how money, time and states look in them."""

from importlib import resources
from pathlib import Path

import jinja2

from manilla.people.roles import Permission
from manilla.web import display, static_files

TEMPLATES = Path(str(resources.files("manilla.web"))) / "templates"


def environment(folder: Path) -> jinja2.Environment:
    """A room's own templates first, then those that all share."""
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.FileSystemLoader(folder), jinja2.FileSystemLoader(TEMPLATES)]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        money=display.money,
        moment=display.moment,
        badge=display.badge,
        browser=display.browser,
        clean=display.clean,
        titled=display.title,
        said=display.said,
    )
    made.globals.update(
        minor=display.minor,
        Permission=Permission,
        static=f"{static_files.PATH}/{static_files.version()}",
    )
    return made
