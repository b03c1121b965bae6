"""Payment configuration: gateways on checkout, and who pays the commission."""

from itertools import groupby
from typing import Any

from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.merchants import merchants
from manilla.merchants.merchants import CommissionBearer, MerchantUpdate
from manilla.payments import commission
from manilla.payments.eligibility import gateways
from manilla.people.roles import Permission
from manilla.services import Services
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, form, page, part

EXAMPLE = 10_000  # in major units


class Configuration:
    def __init__(self, desk: Services) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        gateways, bearer = "/{environment:str}/gateways", "/{environment:str}/commission"
        return [
            page(gateways, self.show_gateways, Permission.VIEW),
            form(gateways, self.choose_gateways, Permission.CONFIGURE),
            page(bearer, self.show_commission, Permission.VIEW),
            part(bearer + "/example", self.show_example, Permission.VIEW),
            form(
                bearer,
                self.choose_bearer,
                Permission.CONFIGURE,
                step_up=True,
                in_both_environments=True,
            ),
        ]

    async def show_gateways(self, request: PageRequest) -> Answer:
        caller = await self._desk.directory.read(request.environment, request.merchant_id)
        rows = gateways(self._desk.methods, self._desk.rails, caller)
        return request.page(
            "gateways.html",
            is_restricted=caller.gateways is not None,
            by_currency=[(c, list(g)) for c, g in groupby(rows, lambda row: row.method.currency)],
        )

    async def choose_gateways(self, request: PageRequest) -> Answer:
        """Saves the selection. As in the specification, selecting none offers all gateways."""
        is_all = request.form.text("which") == "all"
        chosen = [] if is_all else request.form.all("gateway")
        try:
            await self._change(request, MerchantUpdate(gateways=chosen))
        except Refusal as refusal:
            return request.redirect("~/gateways", failed=refusal.text)
        done = "Saved. Checkout now offers the selected gateways."
        return request.redirect(
            "~/gateways",
            done=done if chosen else "Saved. Checkout now offers all available gateways.",
        )

    async def show_commission(self, request: PageRequest) -> Answer:
        return request.page("commission.html", **await self._example(request))

    async def show_example(self, request: PageRequest) -> Answer:
        """The worked example alone, updated as the user types."""
        return request.page("commission_example.html", **await self._example(request))

    async def _example(self, request: PageRequest) -> dict[str, Any]:
        merchant = await merchants.get(self._desk.db, request.merchant_id)
        amount = _amount(request, merchant.currencies[0])
        percent = merchant.commission_percent
        return {
            "merchant": merchant,
            "amount": amount,
            "quotes": [
                (bearer, commission.quote(amount, percent, bearer)) for bearer in CommissionBearer
            ],
            "production": Environment.PRODUCTION,
        }

    async def choose_bearer(self, request: PageRequest) -> Answer:
        bearer = request.form.choice("bearer", CommissionBearer)
        await self._change(request, MerchantUpdate(commission_bearer=bearer))
        who = "The customer" if bearer is CommissionBearer.CUSTOMER else "Your business"
        return request.redirect("~/commission", done=f"{who} now pays the commission.")

    async def _change(self, request: PageRequest, change: MerchantUpdate) -> None:
        await merchants.change(self._desk.db, self._desk.keyring, request.merchant_id, change)


def _amount(request: PageRequest, currency: str) -> Money:
    """The amount typed so far, or the default example if it is not an amount yet."""
    try:
        given = request.query.money("amount", currency)
    except Refusal:
        given = Money(currency, 0)
    return given if given.minor > 0 else Money.of(EXAMPLE, currency)
