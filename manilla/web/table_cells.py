"""Formats the cells of list pages. Each cell is one line, so that many rows fit on a screen."""

from markupsafe import Markup

from manilla.web.display import badge, clean, shorten, title
from manilla.web.page_request import PageRequest

TEXT_LENGTH_MAX, LONG_TEXT_LENGTH_MAX = 60, 600


def link(request: PageRequest, path: str, text: str) -> Markup:
    shown = clean(text, TEXT_LENGTH_MAX)
    return Markup('<a class="row-link" href="{}">{}</a>').format(request.at(path), shown)


def id_link(request: PageRequest, path: str, identifier: str) -> Markup:
    """Returns a link with a long id, shortened in the middle."""
    return Markup('<a class="row-link" href="{}">{}</a>').format(
        request.at(path), shorten(identifier)
    )


def identifier(value: str | None) -> Markup | str:
    """Returns a long id, shortened in the middle, with a copy button."""
    if not value:
        return "—"
    return Markup(
        '<span class="copyable">{}<button type="button" class="copy" data-copy="{}">'
        '<span class="visually-hidden">Copy {}</span></button></span>'
    ).format(shorten(value), value, value)


def long_text(value: object) -> str:
    """Returns the text of a cell in a wide column, whose cells can have several lines."""
    return clean(str(value), LONG_TEXT_LENGTH_MAX) if value else "—"


def text(value: object) -> str:
    return clean(str(value), TEXT_LENGTH_MAX) if value else "—"


def status(state: str, detail: str | None = None, *, shown: str | None = None) -> Markup:
    """Returns a status label, followed by the reason if there is one."""
    label = badge(state, shown)
    if not detail:
        return label
    reason = title(detail.lower())
    return Markup(
        '<span class="with-note" title="{}">{}<span class="note">{}</span></span>'
    ).format(reason, label, reason)


def beside(main: Markup, detail: str) -> Markup:
    """Returns a cell with its main content and, after it, a detail in gray."""
    return Markup('<span>{} <span class="quiet">{}</span></span>').format(main, detail)
