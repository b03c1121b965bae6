"""The setup checklist of a provider account, and the provider's guide rendered as HTML."""

import re
from typing import Any

import msgspec
from markupsafe import Markup

from manilla.api import webhooks
from manilla.kit import deadline
from manilla.kit.database.connections import Database
from manilla.ledger.provider_funds import NOBODY
from manilla.methods import catalogue
from manilla.methods.method import Method
from manilla.providers.kind import Credentials
from manilla.web.page_request import PageRequest

MERCHANTS_MAX = 1000  # webhooks are searched only for this many of the newest merchants


class SetupStep(msgspec.Struct, frozen=True):
    title: str
    is_done: bool
    text: str
    url: str = ""  # the page for this step
    copied: str = ""  # a value that the user copies


async def steps(request: PageRequest, current: Credentials, missing: str) -> list[SetupStep]:
    """Returns a provider's setup steps in order. `missing` names the missing credentials."""
    db, provider = request.db, current.provider
    methods = [each for each in await catalogue.load(db) if each.provider == provider]
    has_key, is_active = current.is_valid, any(method.active for method in methods)
    return [
        _credentials(missing),
        SetupStep(
            "Webhook",
            has_key and await _has_webhook(db, provider),
            f"Enter this URL in the dashboard of {current.kind.title}. This step is done when the"
            " first webhook with a valid signature arrives.",
            copied=f"{request.services.base_url}{webhooks.PREFIX}{provider}",
        ),
        SetupStep(
            "Connection",
            has_key and await _has_banks(db, provider),
            "Press “Test connection”. The test loads the balance and the bank list.",
        ),
        _methods(request, methods, is_active=is_active),
        SetupStep(
            "First payment",
            has_key and is_active and await _has_moved_money(db, provider),
            "Pay a small amount through checkout, then pay it out to your own account.",
            url=request.at("/transactions"),
        ),
    ]


def _credentials(missing: str) -> SetupStep:
    text = f"Missing: {missing}." if missing else "All required credentials are set."
    return SetupStep("Credentials", not missing, text, "#credentials")


def _methods(request: PageRequest, methods: list[Method], *, is_active: bool) -> SetupStep:
    active = ", ".join(method.name for method in methods if method.active)
    text = f"Active: {active}." if active else "Activate the methods that you want to offer."
    if not (active or request.services.is_development):
        text += " If a provider is configured, another administrator must approve the change."
    return SetupStep("Methods", is_active, text, request.at("/methods"))


async def _has_webhook(db: Database, provider: str) -> bool:
    found = db.value(
        """
        SELECT EXISTS (
               SELECT FROM (SELECT $2::bigint AS id UNION ALL
                            (SELECT id FROM merchant ORDER BY id DESC LIMIT $3)) AS whose
                CROSS JOIN LATERAL (
                      SELECT FROM webhook w
                       WHERE w.merchant_id = whose.id AND w.provider = $1 LIMIT 1) AS found)""",
        *(provider, NOBODY, MERCHANTS_MAX),
    )
    return bool(await deadline.or_none(found))


async def _has_banks(db: Database, provider: str) -> bool:
    return bool(
        await db.value(
            "SELECT EXISTS (SELECT FROM provider_bank WHERE provider = $1 AND is_listed)", provider
        )
    )


async def _has_moved_money(db: Database, provider: str) -> bool:
    """Returns whether a payment or payout through the provider was posted to the ledger."""
    found = db.value(
        """
        SELECT EXISTS (SELECT FROM entry
                        WHERE account = $1 AND environment = 'production' AND merchant_id <> $2)""",
        *(f"clearing:{provider}", NOBODY),
    )
    return bool(await deadline.or_none(found))


def guide(text: str) -> Markup:
    """Renders a guide as HTML, without the guide's title, which the page already shows."""
    # Import the Markdown library here, because only this page needs it.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(tokens[place + 1].content))
        elif token.type == "table_open":
            token.attrSet("class", "table")
        elif token.type == "inline":
            token.children = _reachable(token.children or [])
    body = tokens[3:] if tokens and tokens[0].tag == "h1" else tokens
    html: str = parser.renderer.render(body, parser.options, {})
    html = html.replace("<table", '<div class="table-box"><table')
    html = html.replace("<pre>", '<pre tabindex="0">')  # lets the keyboard scroll it
    return Markup(html.replace("</table>", "</table></div>"))  # noqa: S704, escaped by the parser


def _anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def _reachable(parts: list[Any]) -> list[Any]:
    """Replaces links to documents that this site does not serve with plain text."""
    kept: list[Any] = []
    is_dropped = False
    for part in parts:
        if part.type == "link_open":
            is_dropped = not str(part.attrGet("href")).startswith(("#", "https://"))
        if not (is_dropped and part.type in ("link_open", "link_close")):
            kept.append(part)
    return kept
