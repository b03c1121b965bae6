"""The sentences about a transaction's money at the top of its page, and the button that helps."""

from datetime import datetime

import msgspec
from markupsafe import Markup, escape

from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.ledger.transactions import TransactionNotFound
from manilla.lookup import querying
from manilla.lookup.whereabouts import Help, Sentence, StoryReader, Tone, Whereabouts
from manilla.people.roles import Permission, Realm
from manilla.web.display import money, near_moment
from manilla.web.page_request import NO_STORE, PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

QUERIES_A_MINUTE = 20
SHOWN = "story"  # the query parameter with the version that an open page shows
QUERIED = "The provider is being queried. This page shows the answer."
TOO_MANY = "There were too many queries in the last minute. Wait a minute and try again."


class StoryButton(msgspec.Struct, frozen=True):
    text: str
    icon: str
    url: str
    is_form: bool = False


class MoneyStory(msgspec.Struct, frozen=True):
    """The values of the template `money_story.html`."""

    url: str
    tone: str
    sentences: list[Markup]
    version: str
    is_polled: bool  # whether an open page updates the sentences
    button: StoryButton | None


def audience(request: PageRequest) -> StoryReader:
    """Returns who reads the page. Merchants see which company a provider is, but no account."""
    is_internal = request.realm is Realm.CONSOLE
    accounts = request.services.rails.accounts
    titles = {
        name: account.title if is_internal else account.kind.title
        for name, account in accounts.items()
    }
    return StoryReader(titles, is_internal)


def story(
    request: PageRequest, path: str, found: Whereabouts, case_path: str | None = None
) -> MoneyStory:
    """Returns the sentences for the page with this path. `case_path`: the open case's page."""
    return MoneyStory(
        url=request.at(path),
        tone=found.tone,
        sentences=[_as_markup(each) for each in found.sentences],
        version=found.version,
        is_polled=found.tone is Tone.UNDERWAY or found.help is Help.QUERY,
        button=_button(request, path, found.help, case_path),
    )


def _button(
    request: PageRequest, path: str, help: Help | None, case_path: str | None
) -> StoryButton | None:
    is_console = request.realm is Realm.CONSOLE
    may_query = request.may(Permission.SUPPORT_TOOLS if is_console else Permission.MOVE_MONEY)
    if case_path is not None:
        return StoryButton("Open case", "gavel", request.at(case_path))
    if help is Help.QUERY and may_query:
        return StoryButton("Query provider", "refresh", request.at(f"{path}/query"), is_form=True)
    if help is Help.DECIDE and request.may(Permission.PAYOUT_DESK):
        queue = path.replace("/transactions/", "/payouts/")
        return None if queue == path else StoryButton("Decide", "gavel", request.at(queue))
    return None


def _as_markup(sentence: Sentence) -> Markup:
    """Returns a sentence's HTML, with times and amounts in their usual format."""
    return Markup("").join(_part(each) for each in sentence)


def _part(part: object) -> Markup:
    match part:
        case datetime():
            return near_moment(part)
        case Money():
            return Markup("<strong>{}</strong>").format(money(part))
    return escape(part)


def poll(request: PageRequest, shown: MoneyStory) -> PageResponse | None:
    """Returns the response for a page that polls for new sentences, or None for other requests."""
    known = request.query.text(SHOWN)
    if not known:
        return None
    if known == shown.version:
        return PageResponse.empty(204, headers=NO_STORE)
    return request.page("money_story.html", story=shown)


async def query(request: PageRequest) -> PageResponse:
    """Queries the provider about a payment, payout or refund now."""
    here, _, _ = request.http.path.removeprefix(request.layout.root).rpartition("/")
    trx_id = here.rpartition("/")[2]
    merchant_id, environment = _owner(request, trx_id)
    if merchant_id is None:
        raise PageNotFound
    bucket = f"{merchant_id:011d}:queries"
    if (await request.services.limiter.take(bucket, QUERIES_A_MINUTE)).exceeded:
        return request.redirect(here, failed=TOO_MANY)
    try:
        await querying.query_now(request.db, merchant_id, trx_id, environment=environment)
    except TransactionNotFound:
        raise PageNotFound from None
    except Refusal as refusal:
        return request.redirect(here, failed=refusal.text)
    return request.redirect(here, done=QUERIED)


def _owner(request: PageRequest, trx_id: str) -> tuple[int | None, Environment | None]:
    if request.realm is Realm.CONSOLE:
        return trx_ids.merchant_of(trx_id), None
    return request.merchant_id, request.environment
