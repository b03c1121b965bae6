"""Renders lists of all merchants' records, with filters from the query string."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from markupsafe import Markup

from manilla.kit import listing
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.fields import Columns, insert_after
from manilla.kit.listing.sorting import RecordFilter
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.merchants import roster
from manilla.web import record_list, table_cells
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

ALL = "all"
ENVIRONMENT, SHOW = "environment", "show"
# Matches a merchant's number, such as `12`, or a suggested merchant, such as `Shop (12)`.
_CHOSEN_MERCHANT = re.compile(r"(?:.*\()?([0-9]{1,11})\)?")
VIEWS = (ENVIRONMENT, SHOW)  # these query parameters select a list and are not filters


Row = TypeVar("Row")


class ScopeFilter(msgspec.Struct, frozen=True, kw_only=True):
    environment: Environment | None = None


def scope(request: PageRequest) -> Everyone:
    """Returns the merchants and environments that the query selects, by default all of them."""
    environment = request.query.text("environment")
    known = environment in set(Environment)
    return Everyone(merchant(request), Environment(environment) if known else None)


def money_scope(request: PageRequest) -> Everyone:
    """Selects one environment: production, unless the query selects the sandbox.

    Administrators pay real money from these lists, so a production list has no sandbox rows.
    """
    is_sandbox = request.query.text(ENVIRONMENT) == Environment.SANDBOX
    request.environment_or_none = Environment.SANDBOX if is_sandbox else Environment.PRODUCTION
    return Everyone(merchant(request), request.environment_or_none)


def queue_scope(request: PageRequest) -> Everyone:
    """Works like `money_scope`, for a list of open decisions, which is read from the primary.

    An administrator must not manually pay a payout that another administrator has just paid.
    """
    request.uses_primary = True
    return money_scope(request)


def merchant(request: PageRequest, name: str = "merchant") -> int | None:
    """Returns the number of the merchant that the user chose, or None if the field is empty."""
    given = request.form if request.http.method == "POST" else request.query
    text = given.text(name)
    if not text:
        return None
    digits = _CHOSEN_MERCHANT.fullmatch(text)
    if digits is None or not 0 < int(digits[1]) <= trx_ids.MERCHANT_ID_MAX:
        raise BadForm(errors={name: "Choose a merchant from the list, or enter its number."})
    return int(digits[1])


def selection(request: PageRequest, name: str, options: Sequence[str]) -> str:
    """Returns the option that the query selects, or by default the first option.

    The default is `ALL` if the query has a search text.
    """
    given = request.query.text(name)
    if given in options or given == ALL:
        return given
    return ALL if request.query.text("q") else options[0]


def checked_scope(request: PageRequest) -> Everyone:
    """Works like `scope`, but rejects an unknown environment."""
    given = {ENVIRONMENT: request.query.text(ENVIRONMENT)}
    wanted = listing.read_filter(ScopeFilter, given)
    return Everyone(merchant(request), wanted.environment)


def path_number(request: PageRequest, name: str, at_most: int = listing.INTEGER_MAX) -> int:
    """Returns a numeric path parameter. Raises `PageNotFound` if the number is out of range."""
    number = int(request.parameter(name))
    if not 0 < number <= at_most:
        raise PageNotFound
    return number


class NamedRow(msgspec.Struct, frozen=True):
    """A list row with the name of its merchant."""

    row: Any
    merchant_id: int | None
    merchant: str
    is_sandbox: bool


def with_merchant(columns: Sequence[ListColumn]) -> tuple[ListColumn, ...]:
    """Inserts the merchant column after a list's first two columns.

    The list's rows must be `NamedRow`s. On phones, the merchant is shown beside the time.
    """
    inner = [
        msgspec.structs.replace(
            column,
            cell=_of_row(column.cell),
            place=Place.WIDE_SCREENS if column.place is Place.ASIDE else column.place,
        )
        for column in columns
    ]
    return (
        *inner[:2],
        ListColumn("merchant", "Merchant", _merchant, place=Place.ASIDE, is_whole=True),
        *inner[2:],
    )


def _of_row(get: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: get(*arguments[:-1], arguments[-1].row)


def _merchant(request: PageRequest, named: NamedRow) -> Markup | str:
    """Renders a link to the merchant, marked "Sandbox" if the row is from the sandbox."""
    if not named.merchant_id:
        return "—"
    path, name = f"/merchants/{named.merchant_id}", named.merchant or str(named.merchant_id)
    link = Markup('<a href="{}">{}</a>').format(request.at(path), table_cells.text(name))
    return table_cells.beside(link, "Sandbox") if named.is_sandbox else link


def environment_filter() -> ListFilter:
    options = record_list.choices([Environment.PRODUCTION, Environment.SANDBOX])
    return ListFilter(ENVIRONMENT, "Environment", options)


def merchant_filter(request: PageRequest) -> ListFilter:
    return ListFilter("merchant", "Merchant", path=request.at("/merchants/names"))


async def show(
    request: PageRequest,
    shown: RecordList,
    template: str,
    export: Columns[Row],
    about: Sequence[Any],
    wanted: RecordFilter,
    filters: Sequence[ListFilter] = (),
    *,
    views: Sequence[str] = (),
    **values: Any,
) -> PageResponse:
    """Shows or exports a list of all merchants' records, with each merchant's name."""
    inner: Columns[NamedRow] = {title: _of_row(get) for title, get in export.items()}
    columns = insert_after(inner, "merchant_id", "merchant", lambda named: named.merchant)
    filters = [*filters, merchant_filter(request)]
    return await shown.show(
        *(request, template, columns, about, wanted, filters),
        views=views,
        prepare=partial(with_merchants, request.db, export),
        **values,
    )


async def with_merchants(db: Database, export: Columns[Row], rows: Sequence[Row]) -> list[NamedRow]:
    """Wraps each row in a `NamedRow`. Gets the merchant's number from the export's columns."""
    owners = [export["merchant_id"](row) for row in rows]
    names = await roster.names(db, filter(None, owners))
    environment = export.get("environment")
    return [
        NamedRow(
            *(row, owner, names.get(owner, "")),
            is_sandbox=environment is not None and environment(row) == Environment.SANDBOX,
        )
        for row, owner in zip(rows, owners, strict=True)
    ]
