"""Emails of the whole platform: failed ones first. In development mode also their content."""

from functools import partial

from litestar import MediaType, Response

from manilla.console import list_pages
from manilla.mail import listing, queries
from manilla.mail.kinds import RULES, MailKind
from manilla.mail.letter import MailContent
from manilla.mail.listing import MailFilter, MailState
from manilla.web.page_request import NO_STORE, PageNotFound, PageRequest, PageResponse

COLUMNS = listing.FIELDS.select(
    "id merchant_id kind recipient state attempts created_at ended_at last_error"
)
# The page may frame the email; the email may use inline styles, and nothing else.
FRAMING = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-src 'self'; frame-ancestors 'none'"
)
FRAMED = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'self'"


async def show_all(request: PageRequest) -> PageResponse:
    """Lists failed emails; in development mode, where the list is a mailbox, all of them."""
    options = (MailState.FAILED, MailState.WAITING, MailState.SENT, MailState.SKIPPED)
    default = list_pages.ALL if request.services.is_development else MailState.FAILED
    state = list_pages.selected(request, "state", (default, *options))
    wanted = MailFilter(
        state=None if state == list_pages.ALL else MailState(state),
        search=request.query.text("q") or None,
    )
    return await list_pages.show(
        request,
        "mails.html",
        "emails",
        COLUMNS,
        partial(listing.mails, request.db, wanted),
        state=state,
        titles={kind: rule.title for kind, rule in RULES.items()},
        has_mail=request.services.has_mail,
    )


async def show(request: PageRequest) -> PageResponse:
    mail = await listing.get(request.db, list_pages.path_number(request, "mail"))
    content = await _content(request) if request.services.is_development else None
    return request.page(
        "mail.html",
        headers={"Content-Security-Policy": FRAMING},
        mail=mail,
        content=content,
        titles={kind: rule.title for kind, rule in RULES.items()},
    )


async def show_html(request: PageRequest) -> PageResponse:
    content = await _content(request) if request.services.is_development else None
    if content is None:
        raise PageNotFound
    headers = {**NO_STORE, "Content-Security-Policy": FRAMED}
    return Response(content.html, media_type=MediaType.HTML, headers=headers)


async def retry(request: PageRequest) -> PageResponse:
    number = list_pages.path_number(request, "mail")
    try:
        await listing.retry(request.db, number)
    except listing.MailNotFailed as refusal:
        return request.redirect_with_errors(f"/mail/{number}", refusal)
    return request.redirect(f"/mail/{number}", done="The email will be sent again now.")


async def _content(request: PageRequest) -> MailContent | None:
    """Returns the message that contains the email; None if its content was deleted."""
    found = await queries.message_of(request.db, list_pages.path_number(request, "mail"))
    if not found or found[0].shown_facts.keys() != RULES[MailKind(found[0].kind)].facts:
        return None
    return request.services.letters.content(found)
