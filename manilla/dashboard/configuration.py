"""Payment settings pages: gateways, receipts, wrong amounts, commission and embedded checkout."""

from itertools import groupby
from typing import Any

from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.merchants import checkout_origins, gateway_order, merchants
from manilla.merchants.gateway_order import OrderStep
from manilla.merchants.merchants import (
    CommissionBearer,
    MerchantUpdate,
    OverpaidRule,
    UnderpaidRule,
)
from manilla.payments import commission
from manilla.payments.eligibility import gateways
from manilla.web.embed import checkout_script
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

EXAMPLE = 10_000  # the amount in the example of the commission, in major units
ORIGINS_LENGTH_MAX = 10_000


async def show_gateways(request: PageRequest) -> PageResponse:
    caller = await request.services.directory.read(request.environment, request.merchant_id)
    rows = gateways(request.services.methods, request.services.rails, caller)
    merchant = await merchants.get(request.db, request.merchant_id)
    return request.page(
        "gateways.html",
        sends_receipts=merchant.sends_receipts,
        overpaid=merchant.overpaid,
        underpaid=merchant.underpaid,
        is_restricted=caller.gateways is not None,
        has_order=bool(caller.gateway_order),
        by_currency=[(c, list(g)) for c, g in groupby(rows, lambda row: row.method.currency)],
    )


async def choose_gateways(request: PageRequest) -> PageResponse:
    """Saves the selected gateways. If no gateway is selected, checkout offers all gateways."""
    is_all = request.form.text("which") == "all"
    chosen = [] if is_all else request.form.all("gateway")
    try:
        await _change(request, MerchantUpdate(gateways=chosen))
    except Refusal as refusal:
        return request.redirect("~/gateways", failed=refusal.text)
    done = "Saved. Checkout now offers the selected gateways."
    return request.redirect(
        "~/gateways",
        done=done if chosen else "Saved. Checkout now offers all available gateways.",
    )


async def move_gateway(request: PageRequest) -> PageResponse:
    """Moves a gateway up or down in the order in which checkout tries gateways."""
    step = OrderStep.UP if request.form.text("up") else OrderStep.DOWN
    code = request.form.text("up") or request.form.text("down")
    environment, merchant_id = request.environment, request.merchant_id
    caller = await request.services.directory.read(environment, merchant_id)
    rows = gateways(request.services.methods, request.services.rails, caller)
    shown = [row.method.code for row in rows]
    await gateway_order.move(request.db, merchant_id, environment, shown, code, step)
    return request.redirect("~/gateways", done="Saved. Checkout now uses this order.")


async def choose_receipts(request: PageRequest) -> PageResponse:
    sends = request.form.is_checked("receipts")
    await _change(request, MerchantUpdate(sends_receipts=sends))
    done = "Saved. Customers get receipts." if sends else "Saved. Customers get no receipts."
    return request.redirect("~/gateways", done=done)


async def choose_wrong_amounts(request: PageRequest) -> PageResponse:
    """Saves the merchant's rules for bank transfers that are too high or too low."""
    overpaid = request.form.choice("overpaid", OverpaidRule)
    underpaid = request.form.choice("underpaid", UnderpaidRule)
    await _change(request, MerchantUpdate(overpaid=overpaid, underpaid=underpaid))
    return request.redirect("~/gateways", done="Saved. The rules apply to new transfers.")


async def show_commission(request: PageRequest) -> PageResponse:
    return request.page("commission.html", **await _example(request))


async def show_example(request: PageRequest) -> PageResponse:
    """Renders the commission example, which is reloaded as the user types an amount."""
    return request.page("commission_example.html", **await _example(request))


async def _example(request: PageRequest) -> dict[str, Any]:
    merchant = await merchants.get(request.db, request.merchant_id)
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


async def choose_bearer(request: PageRequest) -> PageResponse:
    bearer = request.form.choice("bearer", CommissionBearer)
    await _change(request, MerchantUpdate(commission_bearer=bearer))
    who = "The customer" if bearer is CommissionBearer.CUSTOMER else "Your business"
    return request.redirect("~/commission", done=f"{who} now pays the commission.")


async def show_origins(request: PageRequest) -> PageResponse:
    return request.page("embedded_checkout.html", **await _origins(request))


async def change_origins(request: PageRequest) -> PageResponse:
    """Saves the origins of the merchant's pages that may show checkout in a frame."""
    environment, merchant_id = request.environment, request.merchant_id
    try:
        text = request.form.text("origins", at_most=ORIGINS_LENGTH_MAX)
        origins = checkout_origins.parse(text, environment)
        await request.confirm_identity()
        await checkout_origins.change(request.db, merchant_id, environment, origins)
    except Refusal as refusal:
        values = await _origins(request)
        return request.form_with_errors("embedded_checkout.html", refusal, **values)
    done = "Saved. Pages of these origins can show checkout."
    return request.redirect(
        "~/embedded-checkout", done=done if origins else "Saved. No page can show checkout."
    )


async def _origins(request: PageRequest) -> dict[str, Any]:
    found = await checkout_origins.read(request.db, request.merchant_id, request.environment)
    return {
        "origins": "\n".join(found),
        "most": checkout_origins.ORIGINS_MAX,
        "script": checkout_script.tag(request.services.base_url),
    }


async def _change(request: PageRequest, change: MerchantUpdate) -> None:
    await merchants.change(request.db, request.services.keyring, request.merchant_id, change)


def _amount(request: PageRequest, currency: str) -> Money:
    """Returns the amount that the user typed, or the default amount if it is not valid."""
    try:
        given = request.query.money("amount", currency)
    except Refusal:
        given = Money(currency, 0)
    return given if given.minor > 0 else Money.of(EXAMPLE, currency)
