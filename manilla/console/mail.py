"""Email pages. In development mode, they also show an email's content."""

import msgspec
from markupsafe import Markup

from manilla.console import list_pages
from manilla.mail import listing, queries
from manilla.mail.kinds import RULES, MailKind
from manilla.mail.letter import MailContent
from manilla.mail.listing import ListedMail, MailFilter, MailState
from manilla.web import lists, record_list, table_cells
from manilla.web.display import badge, title
from manilla.web.page_request import NO_STORE, PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList, time_column
from manilla.web.serving.policy import content_policy
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

KINDS: dict[str, str] = {kind: rule.title for kind, rule in RULES.items()}
COLUMNS = listing.FIELDS.select(
    "id merchant_id kind recipient state attempts created_at ended_at last_error"
)
# Content security policy of the page that shows the email in a frame.
FRAMING = content_policy(frames="'self'")
# Content security policy of the email itself, which may use only inline styles.
FRAMED = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'self'"


def _kind(request: PageRequest, row: ListedMail) -> Markup:
    return table_cells.link(request, f"/mail/{row.id}", KINDS.get(row.kind, row.kind))


def _state(_request: PageRequest, row: ListedMail) -> Markup:
    return badge("completed" if row.state == MailState.SENT else row.state, title(row.state))


LIST = RecordList(
    "emails",
    "email",
    list_pages.with_merchant(
        (
            time_column("Created", "created_at"),
            ListColumn("email", "Email", _kind, place=Place.NAME),
            ListColumn(
                "to", "To", lambda _, row: table_cells.text(row.recipient), place=Place.DETAIL
            ),
            ListColumn("state", "State", _state, place=Place.STATUS),
            ListColumn("attempts", "Attempts", lambda _, row: row.attempts, is_default=False),
            ListColumn(
                "error",
                "Last error",
                lambda _, row: table_cells.long_text(row.last_error),
                is_wide=True,
                place=Place.DETAIL,
            ),
            ListColumn("number", "Number", lambda _, row: row.id, is_default=False),
        )
    ),
    listing.mails,
    listing.totals,
)


async def show_all(request: PageRequest) -> PageResponse:
    """Lists emails: by default failed emails, or all emails in development mode."""
    options = (MailState.FAILED, MailState.WAITING, MailState.SENT, MailState.SKIPPED)
    default = list_pages.ALL if request.services.is_development else MailState.FAILED
    state = list_pages.selection(request, "state", (default, *options))
    wanted = msgspec.structs.replace(
        lists.read_filter(request, MailFilter, "kind"),
        state=None if state == list_pages.ALL else MailState(state),
        merchant_id=list_pages.merchant(request),
    )
    filters = [
        ListFilter("state", "State", record_list.choices([*options, list_pages.ALL]), value=state),
        ListFilter("kind", "Email", list(KINDS.items())),
    ]
    return await list_pages.show(
        *(request, LIST, "mails.html", COLUMNS, [], wanted, filters),
        state=state,
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
        titles=KINDS,
    )


async def show_html(request: PageRequest) -> PageResponse:
    content = await _content(request) if request.services.is_development else None
    if content is None:
        raise PageNotFound
    headers = {**NO_STORE, "Content-Security-Policy": FRAMED}
    return PageResponse.html(content.html, headers=headers)


async def retry(request: PageRequest) -> PageResponse:
    number = list_pages.path_number(request, "mail")
    try:
        await listing.retry(request.db, number)
    except listing.MailNotFailed as refusal:
        return request.redirect_with_errors(f"/mail/{number}", refusal)
    return request.redirect(f"/mail/{number}", done="The email is being sent again.")


async def _content(request: PageRequest) -> MailContent | None:
    """Returns the email's content, or None if the content was deleted."""
    found = await queries.message_of(request.db, list_pages.path_number(request, "mail"))
    if not found or found[0].shown_facts.keys() != RULES[MailKind(found[0].kind)].facts:
        return None
    return request.services.letters.content(found)
