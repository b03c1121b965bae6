"""Pages for deposit and withdrawal methods: limits, fees, order and activation."""

import hashlib
from functools import partial
from typing import Any

import msgspec

from manilla.approvals import changes
from manilla.approvals.changes import apply_or_ask
from manilla.approvals.kinds import MethodChange
from manilla.console.providers import titles
from manilla.console.responses import done_or_asked
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.methods import catalogue
from manilla.methods.catalogue import MethodUpdate
from manilla.methods.method import Method, MethodKind
from manilla.web.forms import BadForm, Form
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

# The names of the form's fee fields start with this prefix.
FEE_FIELDS = {MethodKind.DEPOSIT: "provider_fee", MethodKind.WITHDRAW: "fee"}
EXAMPLE = 10_000  # the amount for which the page previews the fee, in major units
POSITION_MAX = 10_000


async def show_all(request: PageRequest) -> PageResponse:
    methods = await catalogue.load(request.db)
    return request.page(
        "methods.html",
        kinds=[(kind, [m for m in methods if m.kind is kind]) for kind in MethodKind],
        obstacle=partial(_not_offered_reason, request),
        providers=titles(request),
    )


async def show(request: PageRequest) -> PageResponse:
    method = await _method(request)
    return request.page("method.html", **_about(request, method))


async def show_fee(request: PageRequest) -> PageResponse:
    """Renders a fee preview from the unsaved form. The browser reloads it as the user types."""
    method = await _method(request)
    try:
        method, problem = catalogue.preview(method, _change(request.query, method)), ""
    except Refusal as refusal:
        problem = next(iter((refusal.errors or {}).values()), refusal.text)
    return request.page("method_fee.html", **_fee(request, method), problem=problem)


async def change(request: PageRequest) -> PageResponse:
    method = await _method(request)
    try:
        if request.form.text("seen") not in ("", _version(method)):
            raise catalogue.ChangedMeanwhile
        wanted = catalogue.only_changes(_change(request.form, method), method)
        change = MethodChange(method.kind, method.code, wanted)
        await changes.check(request.approvals, change)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, change)
    except Refusal as refusal:
        method = await _method(request)
        return request.form_with_errors("method.html", refusal, **_about(request, method))
    return done_or_asked(request, "/methods", result, f"{wanted.name or method.name} saved.")


async def _method(request: PageRequest) -> Method:
    code = request.parameter("code")
    for method in await catalogue.load(request.db):
        if method.code == code:
            return method
    raise PageNotFound


def _not_offered_reason(request: PageRequest, method: Method) -> str:
    """Returns why production does not offer the method, or "" if production offers it."""
    if not method.active:
        return "Disabled"
    is_usable = request.services.methods.is_usable(method, Environment.PRODUCTION)
    return "" if is_usable else "The provider is disabled, stopped or not configured"


def _about(request: PageRequest, method: Method) -> dict[str, Any]:
    return {
        **_fee(request, method),
        "method": method,
        "fee_fields": FEE_FIELDS[method.kind],
        "seen": _version(method),
        "obstacle": _not_offered_reason(request, method),
        "problem": "",
        "providers": titles(request),
        "major": lambda minor: "" if minor is None else f"{Money(method.currency, minor).amount:f}",
    }


def _fee(request: PageRequest, method: Method) -> dict[str, Any]:
    try:
        amount = request.query.money("amount", method.currency)
    except Refusal:
        amount = Money.of(EXAMPLE, method.currency)
    return {"amount": amount, "fee": method.fee.of(amount), "takes": method.takes(amount)}


def _version(method: Method) -> str:
    """Returns a hash that changes whenever a field of the method changes."""
    return hashlib.sha256(msgspec.json.encode(method)).hexdigest()[:16]


def _change(given: Form, method: Method) -> MethodUpdate:
    """Parses the form, which contains all fields. An empty maximum means that there is no limit."""
    name = given.required("name", at_most=catalogue.NAME_LENGTH_MAX)
    position = given.integer("position")
    if position > POSITION_MAX:
        raise BadForm(errors={"position": f"At most {POSITION_MAX}."})
    change = MethodUpdate(
        name=name,
        active=given.is_checked("active"),
        position=position,
        minimum=_amount(given, "minimum", method),
        maximum=_amount_or_none(given, "maximum", method),
    )
    fee = FEE_FIELDS[method.kind]
    if f"{fee}_fixed" not in given:
        return change
    return msgspec.structs.replace(
        change,
        fee_fixed=_amount(given, f"{fee}_fixed", method),
        fee_percent=given.decimal(f"{fee}_percent"),
        fee_minimum=_amount_or_none(given, f"{fee}_minimum", method),
        fee_maximum=_amount_or_none(given, f"{fee}_maximum", method),
    )


def _amount(given: Form, name: str, method: Method) -> str:
    return f"{given.money(name, method.currency).amount:f}"


def _amount_or_none(given: Form, name: str, method: Method) -> str:
    return _amount(given, name, method) if given.text(name) else "none"
