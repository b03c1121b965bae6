"""Lists of all merchants' records: the filters in their query strings, and their pages."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from manilla.kit import listing
from manilla.kit.environment import Environment
from manilla.kit.fields import Columns
from manilla.kit.listing import Page
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.merchants import roster
from manilla.web import lists
from manilla.web.forms import BadForm
from manilla.web.lists import ListView
from manilla.web.page_request import PageNotFound, PageRequest, PageResponse

ALL = "all"
ENVIRONMENT, SHOW = "environment", "show"
# A merchant's number, or its name and number as the suggestions have them: `Shop (12)`.
_CHOSEN_MERCHANT = re.compile(r"(?:.*\()?([0-9]{1,11})\)?")
VIEWS = (ENVIRONMENT, SHOW)  # query parameters that select which list is shown; not filters


Row = TypeVar("Row")


class ScopeFilter(msgspec.Struct, frozen=True, kw_only=True):
    environment: Environment | None = None


def scope(request: PageRequest) -> Everyone:
    """Returns the scope: all merchants and both environments, unless the query selects one."""
    environment = request.query.text("environment")
    known = environment in set(Environment)
    return Everyone(merchant(request), Environment(environment) if known else None)


def money_scope(request: PageRequest) -> Everyone:
    """Returns a scope of one environment: production, unless the query selects the sandbox.

    Administrators pay real money from these lists, so sandbox rows must not be among them.
    """
    is_sandbox = request.query.text(ENVIRONMENT) == Environment.SANDBOX
    request.environment_or_none = Environment.SANDBOX if is_sandbox else Environment.PRODUCTION
    return Everyone(merchant(request), request.environment_or_none)


def merchant(request: PageRequest, name: str = "merchant") -> int | None:
    """Returns the number of the merchant that was chosen by name or number, if one was."""
    given = request.form if request.http.method == "POST" else request.query
    text = given.text(name)
    if not text:
        return None
    digits = _CHOSEN_MERCHANT.fullmatch(text)
    if digits is None or not 0 < int(digits[1]) <= trx_ids.MERCHANT_ID_MAX:
        raise BadForm(errors={name: "Choose a merchant from the list, or enter its number."})
    return int(digits[1])


def selected(request: PageRequest, name: str, options: Sequence[str]) -> str:
    """Returns the selected option, or the first option if the query selects none.

    A search without a selected option covers all options.
    """
    given = request.query.text(name)
    if given in options or given == ALL:
        return given
    return ALL if request.query.text("q") else options[0]


def checked_scope(request: PageRequest) -> Everyone:
    """Returns the same as `scope`, but rejects an unknown environment."""
    given = {ENVIRONMENT: request.query.text(ENVIRONMENT)}
    wanted = listing.read_filter(ScopeFilter, given)
    return Everyone(merchant(request), wanted.environment)


def path_number(request: PageRequest, name: str, at_most: int = listing.INTEGER_MAX) -> int:
    """Returns an id from the path."""
    number = int(request.parameter(name))
    if not 0 < number <= at_most:
        raise PageNotFound
    return number


async def show(
    request: PageRequest,
    template: str,
    name: str,
    columns: Columns[Row],
    fetch: Callable[..., Awaitable[Page[Row]]],
    *,
    views: Sequence[str] = (),
    more: Callable[[ListView, list[Row]], Awaitable[dict[str, Any]]] | None = None,
    **values: Any,
) -> PageResponse:
    """Shows or exports a list. The page template also gets the names of the rows' merchants."""

    async def with_names(view: ListView, rows: list[Row]) -> dict[str, Any]:
        found = {} if more is None else await more(view, rows)
        owners = map(columns["merchant_id"], [*rows, *found.get("waiting", ())])
        return {**found, "names": await roster.names(request.db, filter(None, owners))}

    return await lists.show(
        request, template, name, columns, fetch, views=views, more=with_names, **values
    )
