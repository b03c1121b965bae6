"""Renders all documentation pages. They are rendered again only if a platform setting changes."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from markupsafe import Markup

from manilla.disputes.dispute import FILES_MAX, DisputeStatus
from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.kit.time_limits import TimeLimits
from manilla.merchants import checkout_origins
from manilla.notify import queries
from manilla.notify.endpoints import endpoint
from manilla.notify.events.kinds import EVENT_TYPES
from manilla.payments import charges
from manilla.platform.settings import PlatformSettings
from manilla.prices import wording
from manilla.reference import code_samples, guidance, operations, sections, transitions
from manilla.reference.operations import DocumentedError, Operation
from manilla.reference.search import SearchEntry, SearchResult, search
from manilla.reference.sections import PageSection
from manilla.saved_ways import declines
from manilla.web.embed import checkout_script
from manilla.web.rendering import environment

TEMPLATES = Path(str(resources.files("manilla.reference"))) / "templates"
ROOT = "/docs"
# Examples of prices, in kobo, and the amounts for which they are worked out, in naira.
PRICE_EXAMPLES = (
    PriceTerms(100_00, Decimal("1.5"), maximum_minor=2_000_00, waived_below_minor=2_500_00),
    PriceTerms(100_00, Decimal("3.9")),
    PriceTerms(percent=Decimal(1), maximum_minor=300_00),
    PriceTerms(25_00, Decimal("0.5"), maximum_minor=500_00),
)
PRICE_AMOUNTS = (1_000, 2_500, 10_000, 100_000, 1_000_000)
HEADING = re.compile(r'(?=<h[23] class="part-heading")')


class DocumentationPage(msgspec.Struct, frozen=True):
    path: str  # path relative to /docs
    title: str
    group: str  # navigation group
    template: str
    operation: Operation | None = None

    @property
    def address(self) -> str:
        return ROOT + self.path


class RenderedPage(msgspec.Struct, frozen=True):
    page: DocumentationPage
    html: str
    sections: list[PageSection]


def _guide(path: str, title: str, group: str) -> DocumentationPage:
    name = path.strip("/") or "overview"
    return DocumentationPage(path, title, group, f"pages/{name}.html")


FIRST = (
    _guide("", "Overview", "Start"),
    _guide("/quick-start", "Quick start", "Start"),
    _guide("/api-basics", "API basics", "Start"),
    _guide("/authentication", "Authentication", "Start"),
    _guide("/sandbox", "Sandbox", "Start"),
    _guide("/payments", "Take payments", "Guides"),
    _guide("/customers", "Customers", "Guides"),
    _guide("/shops", "Shops", "Guides"),
    _guide("/embedded-checkout", "Checkout in your page", "Guides"),
    _guide("/payouts", "Send payouts", "Guides"),
    _guide("/refunds", "Refunds and disputes", "Guides"),
    _guide("/prices", "What a payment costs", "Guides"),
    _guide("/notifications", "Notifications", "Guides"),
    _guide("/webhook-endpoints", "Webhook endpoints", "Guides"),
    _guide("/clients", "Client libraries", "Guides"),
    _guide("/going-live", "Going live", "Guides"),
)
LAST = (
    _guide("/errors", "Errors", "API reference"),
    _guide("/changelog", "API changelog", "API reference"),
)
# Maps the addresses of former pages to the pages that have their sections now, with the same ids.
MOVED = {
    f"{ROOT}/idempotency": f"{ROOT}/api-basics",
    **dict.fromkeys(
        (f"{ROOT}/{language}-client" for language in ("python", "typescript", "php")),
        f"{ROOT}/clients",
    ),
}


class Documentation:
    def __init__(self, document: Mapping[str, Any], *, is_development: bool) -> None:
        self.operations = operations.operations(document)
        self.pages = [*FIRST, *(_reference(one) for one in self.operations), *LAST]
        self._base_url = document["servers"][0]["url"]
        self._is_development = is_development
        self._templates = environment(TEMPLATES)
        self._templates.filters.update(highlight=code_samples.highlight)
        self._templates.globals.update(
            documentation=self, root=ROOT, facts=_facts(document, self.operations)
        )

    def render_all(self, settings: PlatformSettings) -> "RenderedDocumentation":
        rendered = {page.address: self._render(page, settings) for page in self.pages}
        return RenderedDocumentation(self, settings, rendered)

    def render_search(
        self, settings: PlatformSettings, query: str, found: Sequence[SearchResult]
    ) -> str:
        content = self._fill("search.html", settings, query=query, found=found)
        return self._layout(settings, content, title="Search", query=query)

    def _render(self, page: DocumentationPage, settings: PlatformSettings) -> RenderedPage:
        content = self._fill(page.template, settings, page=page, operation=page.operation)
        parts = sections.of_page(content)
        place = self.pages.index(page)
        html = self._layout(
            settings,
            content,
            page=page,
            title=page.title,
            sections=parts[1:],
            before=self.pages[place - 1] if place else None,
            after=self.pages[place + 1] if place + 1 < len(self.pages) else None,
        )
        return RenderedPage(page, html, parts)

    def _layout(self, settings: PlatformSettings, content: str, **values: Any) -> str:
        safe = Markup(_in_parts(content))  # noqa: S704 - from our own templates, which escape
        empty = dict.fromkeys(("page", "sections", "before", "after"))
        values = {**empty, "query": "", **values, "content": safe}
        return self._fill("docs.html", settings, **values)

    def _fill(self, template: str, settings: PlatformSettings, **values: Any) -> str:
        return self._templates.get_template(template).render(
            settings=settings,
            base_url=self._base_url,
            is_development=self._is_development,
            **values,
        )

    def groups(self) -> dict[str, list[DocumentationPage]]:
        """Returns the pages by navigation group, in display order."""
        groups: dict[str, list[DocumentationPage]] = {}
        for page in self.pages:
            groups.setdefault(page.group, []).append(page)
        return groups

    def of(self, operation_id: str) -> Operation:
        return next(one for one in self.operations if one.id == operation_id)


class RenderedDocumentation:
    """All pages, rendered with one version of the platform settings, and their search index."""

    def __init__(
        self,
        source: Documentation,
        settings: PlatformSettings,
        pages: Mapping[str, RenderedPage],
    ) -> None:
        self.settings = settings
        self.pages = pages
        self._source = source
        self._index = [entry for page in pages.values() for entry in _entries(page)]

    def search(self, query: str) -> list[SearchResult]:
        return search(self._index, query)

    def search_page(self, query: str) -> str:
        return self._source.render_search(self.settings, query, self.search(query))


def _in_parts(content: str) -> str:
    """Wraps each heading with its content in a <div>, so its code can be shown beside its text."""
    return "".join(f'<div class="part">{part}</div>' for part in HEADING.split(content))


def _reference(operation: Operation) -> DocumentationPage:
    path = f"/api/{operation.slug}"
    return DocumentationPage(path, operation.title, "API reference", "endpoint.html", operation)


def _entries(rendered: RenderedPage) -> list[SearchEntry]:
    page = rendered.page
    return [
        SearchEntry(
            page.title,
            section.heading,
            page.address + (f"#{section.id}" if section.id else ""),
            section.text,
            name="" if page.operation is None else page.operation.slug,
            is_legacy=page.operation is not None and not page.operation.is_signed,
        )
        for section in rendered.sections
    ]


def _worked(terms: PriceTerms) -> tuple[str, list[str]]:
    """Returns a price as a text, and what it is for some amounts."""
    fees = [terms.of(Money.of(amount, "NGN")) for amount in PRICE_AMOUNTS]
    return wording.describe(terms, "NGN"), [f"{fee.amount:,f}" for fee in fees]


def _facts(document: Mapping[str, Any], known: Sequence[Operation]) -> dict[str, Any]:
    """Returns the template values that come from code, such as limits, states and error codes."""
    return {
        "samples": code_samples.samples,
        "programs": code_samples.PROGRAMS,
        "postman_script": (code_samples.SAMPLES / "postman" / "sign.js").read_text(),
        "bruno_script": (code_samples.SAMPLES / "bruno" / "sign.js").read_text(),
        "notices": operations.notices(document),
        "errors": _errors(known),
        "guidance": guidance.GUIDANCE,
        "outcomes": guidance.OUTCOMES,
        "notice": {one.slug: one for one in operations.notices(document)}.__getitem__,
        "payout_outcomes": guidance.PAYOUT_OUTCOMES,
        "refund_refusals": guidance.REFUNDS,
        "dispute_files_max": FILES_MAX,
        "dispute_statuses": list(DisputeStatus),
        "refund_steps": transitions.REFUND_STEPS,
        "payout_steps": transitions.PAYOUT_STEPS,
        "payment_steps": transitions.PAYMENT_STEPS,
        "sandbox_accounts": transitions.SANDBOX_ACCOUNTS,
        "sandbox_amounts": transitions.SANDBOX_AMOUNTS,
        "way_declines": declines.RULES,
        "sandbox_banks": transitions.SANDBOX_BANKS,
        "attempt_seconds": int(TimeLimits().notification_seconds),
        "endpoints": endpoint,
        "event_types": list(EVENT_TYPES),
        "price_amounts": [f"{amount:,}" for amount in PRICE_AMOUNTS],
        "price_examples": [_worked(terms) for terms in PRICE_EXAMPLES],
        "ipn_retry_seconds": queries.RETRY_SECONDS,
        "charges_max": charges.TRIES_MAX,
        "checkout_seconds": int(TimeLimits().route_seconds),
        "version": document["info"]["version"],
        "script": checkout_script,
        "shop_file": code_samples.shop_file,
        "origins_max": checkout_origins.ORIGINS_MAX,
    }


def _errors(known: Sequence[Operation]) -> list[tuple[DocumentedError, list[Operation]]]:
    """Returns all error codes, ordered by status, each with the endpoints that can return it."""
    found: dict[str, tuple[DocumentedError, list[Operation]]] = {}
    for operation in known:
        for error in operation.errors:
            found.setdefault(error.code, (error, []))[1].append(operation)
    for refusal in guidance.OUTSIDE:
        listed = DocumentedError(refusal.status, refusal.code, refusal.message)
        found[refusal.code] = (listed, [])
    return sorted(found.values(), key=lambda one: one[0].status)
