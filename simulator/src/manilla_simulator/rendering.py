"""Renders pages. Templates escape values by default, and the security policy forbids scripts."""

from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from aiohttp import web

from manilla_simulator.views import naira

FOLDER = Path(str(resources.files("manilla_simulator")))

# When a form is submitted, browsers apply `form-action` to every redirect that follows.
# Customers therefore return to the merchant's site through a link or a refresh, not a redirect.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters["naira"] = naira


def render(template: str, status: int = 200, **values: Any) -> web.Response:
    text = _templates.get_template(template).render(values)
    return web.Response(status=status, text=text, content_type="text/html", headers=HEADERS)


def add_static(app: web.Application) -> None:
    app.router.add_static("/static", FOLDER / "static")
