"""Pages that list changes awaiting a second administrator's approval, and past decisions."""

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, get_args

import msgspec

from manilla.approvals import approvals, queries
from manilla.approvals.kinds import PlatformChange
from manilla.approvals.queries import Approval, ApprovalFilter, ApprovalStatus
from manilla.audit.actor import current
from manilla.audit.entry import plain
from manilla.cases.cases import path as case_path
from manilla.console import list_pages
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.listing.sorting import SortOrder
from manilla.kit.money import Money
from manilla.merchants import merchants, wallets
from manilla.methods import catalogue
from manilla.methods.method import Method, MethodKind
from manilla.people.roles import Permission
from manilla.platform import settings
from manilla.providers import credentials
from manilla.web import lists, record_list, table_cells
from manilla.web.authentication import NotAllowed
from manilla.web.display import badge, describe_changes, short_moment, shown_value, title
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList, time_column
from manilla.web.serving.response import PageResponse

# The folders of the pages about subjects that have one name.
_FOLDERS = {
    "setting": "settings",
    "provider": "providers",
    "method": "methods",
    "dispute": "disputes",
    "payment": "transactions",
}
KINDS = sorted(str(kind.__struct_config__.tag) for kind in get_args(PlatformChange))


def _asked(_request: PageRequest, row: Approval) -> str:
    return table_cells.text(row.asked_by.name)


def _decided(_request: PageRequest, row: Approval) -> str:
    return table_cells.text(row.decided_by and row.decided_by.name)


LIST = RecordList(
    "approvals",
    "approval",
    (
        time_column("Requested", "asked_at"),
        ListColumn("number", "Approval", lambda _, row: row.id),
        ListColumn("kind", "Type", lambda _, row: title(row.kind), is_default=False),
        ListColumn(
            "subject", "About", lambda _, row: table_cells.text(row.subject), place=Place.NAME
        ),
        ListColumn(
            "change", "Change", lambda _, row: _change(row), is_wide=True, place=Place.DETAIL
        ),
        ListColumn("asked", "Requested by", _asked, place=Place.ASIDE),
        ListColumn(
            "status",
            "Status",
            lambda _, row: badge(row.status),
            sorts=(SortOrder.STATUS,),
            place=Place.STATUS,
        ),
        ListColumn("decided", "Decided by", _decided),
        ListColumn("decision", "Reason", lambda _, row: table_cells.text(row.decision)),
        ListColumn(
            "ended",
            "Decided",
            lambda _, row: short_moment(row.decided_at),
            is_default=False,
        ),
    ),
    queries.past_approvals,
    queries.totals,
)
COLUMNS = queries.FIELDS.select(
    "id kind subject merchant_id detail reason status asked_by asked_at decided_by decided_at"
    " decision"
)


async def show(request: PageRequest) -> PageResponse:
    wanted = lists.read_filter(request, ApprovalFilter, "status", "kind")
    is_plain = wanted == ApprovalFilter() and lists.after(request) is None
    waiting = await approvals.waiting(request.db) if is_plain else []
    filters = [
        ListFilter("status", "Status", record_list.choices(list(ApprovalStatus))),
        ListFilter("kind", "Type", record_list.choices(KINDS)),
    ]
    return await LIST.show(
        *(request, "approvals.html", COLUMNS, [], wanted, filters),
        waiting=[
            (each, _in_words(each, plain(await _current_values(request, each)))) for each in waiting
        ],
        is_plain=is_plain,
        is_own=_is_own,
        place=partial(_place, request),
    )


def _change(row: Approval) -> str:
    return table_cells.long_text(" · ".join(_in_words(row)))


async def _current_values(request: PageRequest, asked: Approval) -> dict[str, Any]:
    """Returns the current values of the fields that the requested change would set.

    A value may have changed since the request.
    """
    db, (_, *about) = request.db, asked.subject.split(":")
    match asked.kind:
        case "setting":
            current = settings.in_mode(
                await settings.load(db), is_development=request.services.is_development
            )
            return _named(msgspec.structs.asdict(current), about)
        case "merchant":
            merchant = await merchants.get(db, int(about[0]))
            return _named(msgspec.structs.asdict(merchant), asked.detail)
        case "method":
            method = next(m for m in await catalogue.load(db) if m.code == about[0])
            return _named(_method_current_values(method), asked.detail)
        case "wallet_funding" | "wallet_adjustment":
            wallet = await wallets.get(db, int(about[0]), Environment(about[1]), about[2])
            return {"balance": Money(wallet.currency, wallet.balance_minor)}
        case "provider":
            given = await credentials.load(db, request.services.keyring)
            return _named(given[about[0]].shown(), asked.detail)
    return {}


async def approve(request: PageRequest) -> PageResponse:
    number = _number(request)
    try:
        await approvals.approve(request.approvals, number)
    except approvals.ApprovalNotFound:
        raise
    except Refusal as refusal:
        return request.redirect_with_errors("/approvals", refusal)
    return request.redirect("/approvals", done=f"Approval {number}: change applied.")


async def refuse(request: PageRequest) -> PageResponse:
    """Rejects a change. The operations role can only withdraw its own requests."""
    number = _number(request)
    asked = await approvals.find(request.db, number)
    if not (request.may(Permission.PLATFORM) or _is_own(asked)):
        raise NotAllowed
    try:
        reason = request.form.required("reason", at_most=approvals.REASON_LENGTH_MAX)
        await request.confirm_identity()
        await approvals.refuse(request.approvals, number, reason)
    except Refusal as refusal:
        return request.redirect_with_errors("/approvals", refusal)
    return request.redirect("/approvals", done=f"Approval {number} was rejected.")


def _in_words(asked: Approval, today: Mapping[str, Any] = MappingProxyType({})) -> list[str]:
    """Describes the change in lines such as `Setting kyc_required: true → false`."""
    detail, kind = dict(asked.detail), asked.kind
    if kind == "setting":
        name = asked.subject.partition(":")[2]
        before = {each: _lower(today[each]) for each in today}
        return [f"Setting {name}: {_before(before, name)}{shown_value(detail['value'])}"]
    changed = [
        f"{title(name)}: {_before(today, name)}{shown_value(detail[name])}"
        for name in detail
        if name in today
    ]
    others = describe_changes({name: detail[name] for name in detail if name not in today})
    known = describe_changes(
        {f"current {name}": today[name] for name in today if name not in detail}
    )
    return [*changed, *others, *known]


def _before(today: Mapping[str, Any], name: str) -> str:
    return f"{shown_value(today[name])} → " if name in today else ""


def _lower(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(known: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: known[name] for name in names if name in known}


def _method_current_values(method: Method) -> dict[str, Any]:
    def amount(minor: int | None) -> Money | str:
        return "none" if minor is None else Money(method.currency, minor)

    return {
        "minimum": amount(method.min_minor),
        "maximum": amount(method.max_minor),
        "fee_fixed": amount(method.fee.fixed_minor),
        "fee_percent": method.fee.percent,
        "fee_minimum": amount(method.fee.minimum_minor),
        "fee_maximum": amount(method.fee.maximum_minor),
    }


def _place(request: PageRequest, asked: Approval) -> str | None:
    """Returns the path of the page about the approval's subject, such as a wallet.

    Returns None if there is no such page yet.
    """
    match asked.subject.split(":"):
        case ["provider", name] if name not in request.services.rails.accounts:
            return None
        case ["method", code] if not any(
            request.services.methods.by_code(kind, code) for kind in MethodKind
        ):
            return None
        case ["wallet", merchant, environment, currency]:
            return f"/merchants/{merchant}/wallets/{environment}/{currency}"
        case ["case", number]:
            return case_path(asked.merchant_id or 0, int(number))
        case [kind, name] if kind in _FOLDERS:
            return f"/{_FOLDERS[kind]}/{name}"
    return None


def _is_own(asked: Approval) -> bool:
    """Returns whether the current user requested the approval."""
    return current.get().is_same_as(asked.asked_by)


def _number(request: PageRequest) -> int:
    return list_pages.path_number(request, "approval", approvals.ID_MAX)
