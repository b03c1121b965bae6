"""All documentation pages, rendered once and cached until a platform setting changes."""

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from markupsafe import Markup

from manilla.ledger import idempotency
from manilla.notify import delivery
from manilla.platform.settings import PlatformSettings
from manilla.reference import guidance, listing, operations, reading, states
from manilla.reference.operations import Operation
from manilla.reference.reading import Section
from manilla.reference.search import Entry
from manilla.web.rendering import environment

TEMPLATES = Path(str(resources.files("manilla.reference"))) / "templates"
ROOT = "/docs"


class Page(msgspec.Struct, frozen=True):
    path: str  # below /docs
    title: str
    part: str  # the group in the navigation
    template: str
    operation: Operation | None = None

    @property
    def address(self) -> str:
        return ROOT + self.path


class Printed(msgspec.Struct, frozen=True):
    page: Page
    html: str
    sections: list[Section]


def _guide(path: str, title: str, part: str) -> Page:
    name = path.strip("/") or "overview"
    return Page(path, title, part, f"pages/{name}.html")


FIRST = (
    _guide("", "Overview", "Start"),
    _guide("/quick-start", "Quick start", "Start"),
    _guide("/authentication", "Authentication", "Start"),
    _guide("/sandbox", "Sandbox", "Start"),
    _guide("/payments", "Take payments", "Guides"),
    _guide("/payouts", "Send payouts", "Guides"),
    _guide("/notifications", "Notifications", "Guides"),
    _guide("/idempotency", "Idempotency and retries", "Guides"),
    _guide("/python-client", "Python client", "Guides"),
    _guide("/going-live", "Going live", "Guides"),
)
LAST = (
    _guide("/errors", "Errors", "API reference"),
    _guide("/changelog", "API changelog", "API reference"),
)


class Book:
    def __init__(self, document: Mapping[str, Any], *, is_development: bool) -> None:
        self.operations = operations.operations(document)
        self.pages = [*FIRST, *(_reference(one) for one in self.operations), *LAST]
        self._document = document
        self._is_development = is_development
        self._templates = environment(TEMPLATES)
        self._templates.filters.update(coloured=listing.coloured, ticked=listing.ticked)
        self._templates.globals.update(book=self, root=ROOT, facts=_facts(document))

    def print(self, settings: PlatformSettings) -> "Edition":
        """Renders all pages with these settings."""
        printed = {page.address: self._print(page, settings) for page in self.pages}
        return Edition(self, settings, printed)

    def render(self, template: str, settings: PlatformSettings, **values: Any) -> str:
        shared = {
            "settings": settings,
            "base_url": self._document["servers"][0]["url"],
            "is_development": self._is_development,
        }
        return self._templates.get_template(template).render({**shared, **values})

    def _print(self, page: Page, settings: PlatformSettings) -> Printed:
        content = self.render(page.template, settings, page=page, operation=page.operation)
        sections = reading.sections(content)
        before, after = self._neighbours(page)
        html = self.render(
            "docs.html",
            settings,
            page=page,
            title=page.title,
            content=Markup(content),  # noqa: S704 - rendered from our own templates, escaped there
            sections=sections[1:],
            before=before,
            after=after,
            query="",
        )
        return Printed(page, html, sections)

    def _neighbours(self, page: Page) -> tuple[Page | None, Page | None]:
        place = self.pages.index(page)
        before = self.pages[place - 1] if place else None
        after = self.pages[place + 1] if place + 1 < len(self.pages) else None
        return before, after

    def parts(self) -> dict[str, list[Page]]:
        """The pages by navigation group, in order."""
        parts: dict[str, list[Page]] = {}
        for page in self.pages:
            parts.setdefault(page.part, []).append(page)
        return parts

    def of(self, operation_id: str) -> Operation:
        return next(one for one in self.operations if one.id == operation_id)


class Edition:
    """The pages rendered with one version of the settings, and their search index."""

    def __init__(
        self, book: Book, settings: PlatformSettings, printed: Mapping[str, Printed]
    ) -> None:
        self.settings = settings
        self._book = book
        self.printed = printed
        self.index = [entry for one in printed.values() for entry in _entries(one)]
        self.index_json = msgspec.json.encode(self.index)

    def find(self, address: str) -> Printed | None:
        return self.printed.get(address)

    def search_page(self, query: str, found: Sequence[Any]) -> str:
        content = self._book.render("search.html", self.settings, query=query, found=found)
        return self._book.render(
            "docs.html",
            self.settings,
            page=None,
            title="Search",
            content=Markup(content),  # noqa: S704 - rendered from our own template, escaped there
            sections=[],
            before=None,
            after=None,
            query=query,
        )


def _reference(operation: Operation) -> Page:
    path = f"/api/{operation.slug}"
    return Page(path, operation.title, "API reference", "endpoint.html", operation)


def _entries(printed: Printed) -> list[Entry]:
    page = printed.page
    return [
        Entry(
            page.title,
            section.heading,
            page.address + (f"#{section.id}" if section.id else ""),
            section.text,
        )
        for section in printed.sections
    ]


def _facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Values that the pages mention, from the code that defines them."""
    return {
        "samples": listing.samples,
        "notices": operations.notices(document),
        "notice_headers": operations.notice_headers(document),
        "errors": _errors(operations.operations(document)),
        "guidance": guidance.GUIDANCE,
        "outcomes": guidance.OUTCOMES,
        "payout_steps": states.PAYOUT_STEPS,
        "payment_steps": states.PAYMENT_STEPS,
        "sandbox_accounts": states.SANDBOX_ACCOUNTS,
        "sandbox_banks": states.SANDBOX_BANKS,
        "delivery": delivery,
        "idempotency": idempotency,
        "version": document["info"]["version"],
    }


class ListedError(msgspec.Struct, frozen=True):
    status: int
    code: str
    message: str
    operations: list[Operation]


def _errors(known: Sequence[Operation]) -> list[ListedError]:
    """Every error code that an endpoint can return, ordered by status."""
    found: dict[str, ListedError] = {}
    for operation in known:
        for error in operation.errors:
            listed = found.setdefault(
                error.code, ListedError(error.status, error.code, error.message, [])
            )
            listed.operations.append(operation)
    for refusal in guidance.OUTSIDE:
        found[refusal.code] = ListedError(refusal.status, refusal.code, refusal.message, [])
    return sorted(found.values(), key=lambda one: one.status)
