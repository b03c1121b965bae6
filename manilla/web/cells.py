"""The content of list cells: one line each, so that many rows fit on a screen."""

from markupsafe import Markup

from manilla.web.display import badge, clean, title
from manilla.web.page_request import PageRequest

TEXT_LENGTH_MAX, LONG_TEXT_LENGTH_MAX = 60, 600


def link(request: PageRequest, path: str, text: str) -> Markup:
    shown = clean(text, TEXT_LENGTH_MAX)
    return Markup('<a class="row-link" href="{}">{}</a>').format(request.at(path), shown)


def long_text(value: object) -> str:
    """Shows text of several lines, in a wide column."""
    return clean(str(value), LONG_TEXT_LENGTH_MAX) if value else "—"


def text(value: object) -> str:
    return clean(str(value), TEXT_LENGTH_MAX) if value else "—"


def status(state: str, detail: str | None = None, *, shown: str | None = None) -> Markup:
    """Shows a status, with the reason after it."""
    label = badge(state, shown)
    return beside(label, title(detail.lower())) if detail else label


def beside(main: Markup, detail: str) -> Markup:
    """Shows a detail after the main content; on a phone both stay together."""
    return Markup('<span>{} <span class="quiet">{}</span></span>').format(main, detail)
