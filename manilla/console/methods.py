"""Deposit and withdrawal methods: limits, fees, order, and whether they are offered."""

import hashlib
from typing import Any

import msgspec

from manilla.approvals.changes import apply_or_ask
from manilla.approvals.kinds import MethodChange
from manilla.console.answers import done_or_asked
from manilla.console.providers import NAMES
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.methods import catalogue
from manilla.methods.catalogue import MethodUpdate
from manilla.methods.method import Method, MethodKind
from manilla.people.roles import Permission
from manilla.services import Services
from manilla.web.forms import BadForm, Form
from manilla.web.layout import NotHere
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, form, page, part

EXAMPLE = 10_000  # in major units
POSITION_MAX = 10_000


class MethodPages:
    def __init__(self, desk: Services) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        one = "/methods/{code:str}"
        return [
            page("/methods", self.show_all, Permission.CONSOLE_VIEW),
            page(one, self.show, Permission.CONSOLE_VIEW),
            part(one + "/fee", self.show_fee, Permission.CONSOLE_VIEW),
            form(one, self.change, Permission.PLATFORM, step_up=True),
        ]

    async def show_all(self, request: PageRequest) -> Answer:
        methods = await catalogue.load(self._desk.db)
        return request.page(
            "methods.html",
            kinds=[(kind, [m for m in methods if m.kind is kind]) for kind in MethodKind],
            obstacle=self._not_offered_reason,
            providers=NAMES,
        )

    async def show(self, request: PageRequest) -> Answer:
        method = await self._method(request)
        return request.page("method.html", **self._about(request, method))

    async def show_fee(self, request: PageRequest) -> Answer:
        """Fee preview for the unsaved form, updated as the user types."""
        method = await self._method(request)
        try:
            method, problem = catalogue.preview(method, _change(request.query, method)), ""
        except Refusal as refusal:
            problem = next(iter((refusal.errors or {}).values()), refusal.text)
        return request.page("method_fee.html", **self._fee(request, method), problem=problem)

    async def change(self, request: PageRequest) -> Answer:
        method = await self._method(request)
        try:
            if request.form.text("seen") not in ("", _version(method)):
                raise catalogue.ChangedMeanwhile
            wanted = catalogue.narrowed(_change(request.form, method), method)
            change = MethodChange(method.kind, method.code, wanted)
            result = await apply_or_ask(self._desk.approvals, change)
        except Refusal as refusal:
            method = await self._method(request)
            return request.refused("method.html", refusal, **self._about(request, method))
        return done_or_asked(request, "/methods", result, f"{wanted.name or method.name} saved.")

    async def _method(self, request: PageRequest) -> Method:
        code = request.parameter("code")
        for method in await catalogue.load(self._desk.db):
            if method.code == code:
                return method
        raise NotHere

    def _not_offered_reason(self, method: Method) -> str:
        """Why the method is not offered in production; empty if it is offered."""
        if not method.active:
            return "Disabled"
        is_usable = self._desk.methods.is_usable(method, Environment.PRODUCTION)
        return "" if is_usable else "The provider is not configured or is disabled"

    def _about(self, request: PageRequest, method: Method) -> dict[str, Any]:
        return {
            **self._fee(request, method),
            "method": method,
            "seen": _version(method),
            "obstacle": self._not_offered_reason(method),
            "problem": "",
            "providers": NAMES,
            "major": lambda minor: (
                "" if minor is None else f"{Money(method.currency, minor).amount:f}"
            ),
        }

    def _fee(self, request: PageRequest, method: Method) -> dict[str, Any]:
        try:
            amount = request.query.money("amount", method.currency)
        except Refusal:
            amount = Money.of(EXAMPLE, method.currency)
        return {"amount": amount, "fee": method.fee.of(amount), "takes": method.takes(amount)}


def _version(method: Method) -> str:
    """Changes whenever any field of the method changes."""
    return hashlib.sha256(msgspec.json.encode(method)).hexdigest()[:16]


def _change(given: Form, method: Method) -> MethodUpdate:
    """Reads the whole form. An empty optional field means no limit."""
    name = given.needed("name", at_most=catalogue.NAME_LENGTH_MAX)
    position = given.whole("position")
    if position > POSITION_MAX:
        raise BadForm(errors={"position": f"At most {POSITION_MAX}."})
    change = MethodUpdate(
        name=name,
        active=given.is_ticked("active"),
        position=position,
        minimum=_amount(given, "minimum", method),
        maximum=_amount_or_none(given, "maximum", method),
    )
    if method.kind is MethodKind.DEPOSIT:
        return change  # deposit methods have no fee
    return msgspec.structs.replace(
        change,
        fee_fixed=_amount(given, "fee_fixed", method),
        fee_percent=given.decimal("fee_percent"),
        fee_minimum=_amount_or_none(given, "fee_minimum", method),
        fee_maximum=_amount_or_none(given, "fee_maximum", method),
    )


def _amount(given: Form, name: str, method: Method) -> str:
    return f"{given.money(name, method.currency).amount:f}"


def _amount_or_none(given: Form, name: str, method: Method) -> str:
    return _amount(given, name, method) if given.text(name) else "none"
