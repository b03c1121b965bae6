"""The search in dashboard and console: a dialog, or a page in browsers without JavaScript."""

from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import Any

import msgspec

from manilla.kit import listing
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.lookup import search
from manilla.lookup.search import HitKind, SearchHit
from manilla.notify import notification_ids
from manilla.notify import queries as notifications
from manilla.transaction_types import TYPES
from manilla.web.layout import OfferedPage
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

LENGTH_MIN = 2
TITLES = {
    **{each.name: each.title for each in TYPES},
    HitKind.MERCHANT: "Merchants",
    HitKind.CUSTOMER: "Customers",
    HitKind.PERSON: "People",
    HitKind.CASE: "Cases",
    HitKind.NOTIFICATION: "Notifications",
    HitKind.REQUEST: "API requests",
}


class RealmSearch(msgspec.Struct, frozen=True):
    """The search of the dashboard or the console. `path` returns the path of a result's page."""

    find: Callable[[PageRequest, str], Awaitable[list[SearchHit]]]
    path: Callable[[PageRequest, SearchHit], str]
    # The title and path of each list that users can filter by amount.
    amount_lists: tuple[tuple[str, str], ...]

    async def show(self, request: PageRequest) -> PageResponse:
        """Shows all results, or redirects to the result if there is only one."""
        values = await self._values(request)
        if len(values["hits"]) == 1 and not values["places"]:
            return request.redirect(self.path(request, values["hits"][0]))
        return request.page("search.html", **values)

    async def show_results(self, request: PageRequest) -> PageResponse:
        return request.page("search_results.html", is_dialog=True, **await self._values(request))

    async def _values(self, request: PageRequest) -> dict[str, Any]:
        text = listing.search_text(request.query.text("q")) or ""
        is_long = len(text) >= LENGTH_MIN or text.isdigit()
        hits = search.exact_first(await self.find(request, text), text) if is_long else []
        groups = groupby(hits, lambda hit: hit.kind)
        return {
            "text": text,
            "is_long": is_long,
            "hits": hits,
            "places": _offered(request, text) if is_long else [],
            "groups": [(TITLES[kind], list(found)) for kind, found in groups],
            "path": lambda hit: request.at(self.path(request, hit)),
            "amount_lists": self.amount_lists if _is_amount(text) else (),
            "recent_rows": search.RECENT_ROWS,
        }


async def notification(db: Database, text: str) -> list[SearchHit]:
    """Returns the notification with this id as the only search result, or an empty list."""
    if notification_ids.merchant_of(text) is None:
        return []
    found = await notifications.notification(db, text)
    if found is None:
        return []
    return [
        SearchHit(
            kind=HitKind.NOTIFICATION,
            id=found.id,
            title=found.id,
            field="Notification ID",
            value=text,
            merchant_id=found.merchant_id,
            environment=found.environment,
            status=found.state,
            created_at=found.created_at,
        )
    ]


def _offered(request: PageRequest, text: str) -> list[OfferedPage]:
    environment = request.environment_or_none or Environment.SANDBOX
    return request.layout.offered(request.may, environment, text)


def _is_amount(text: str) -> bool:
    return bool(text) and text.replace(",", "").replace(".", "", 1).isdigit() and len(text) <= 15
