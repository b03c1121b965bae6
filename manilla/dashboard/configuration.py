"""Payment settings pages: gateways, branding, receipts, wrong amounts, commission, embedding."""

from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from manilla.checkout import accent
from manilla.dashboard import uploads
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.merchants import branding, checkout_origins, gateway_order, logo, merchants
from manilla.merchants.gateway_order import OrderStep
from manilla.merchants.merchants import (
    CommissionBearer,
    MerchantUpdate,
    OverpaidRule,
    UnderpaidRule,
)
from manilla.methods.method import MethodKind
from manilla.payments import commission
from manilla.payments.eligibility import gateways
from manilla.prices import wording
from manilla.prices.price import PriceDirection
from manilla.web.embed import checkout_script
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

EXAMPLE = 10_000  # the amount in the example of the commission, in major units
PRICE_EXAMPLES = (1_000, 10_000, 100_000, 1_000_000)
ORIGINS_LENGTH_MAX = 10_000
# The maximum size of the form with the branding: the logo and some small fields.
UPLOAD_BYTES_MAX = 2 * logo.FILE_BYTES_MAX
SAMPLE = Money.of(5_000, "NGN")  # the amount in the preview of checkout


async def show_gateways(request: PageRequest) -> PageResponse:
    caller = await request.services.directory.read(request.environment, request.merchant_id)
    rows = gateways(request.services.methods, request.services.rails, caller)
    return request.page(
        "gateways.html",
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


async def show_checkout(request: PageRequest) -> PageResponse:
    return request.page("checkout.html", **await _checkout(request))


async def show_preview(request: PageRequest) -> PageResponse:
    """Renders the preview of checkout, which is reloaded as the user chooses a color."""
    merchant = await merchants.get(request.db, request.merchant_id)
    color = branding.parse_color(request.query.text("accent", at_most=300))
    return request.page("checkout_preview.html", merchant=merchant, **_preview(color))


async def _checkout(request: PageRequest) -> dict[str, Any]:
    merchant = await merchants.get(request.db, request.merchant_id)
    found = await branding.find(request.db, request.merchant_id)
    return {
        "merchant": merchant,
        "branding": found,
        "logo_bytes_max": logo.FILE_BYTES_MAX,
        "default_color": f"#{accent.DEFAULT}",
        **_preview(found.accent),
    }


def _preview(color: str | None) -> dict[str, Any]:
    shown = color or accent.DEFAULT
    note = "" if color else "This is checkout's default color."
    if color and any(each.brand != f"#{color}" for each in accent.previews(color)):
        note = "Buttons and links use a darker or lighter shade, so that they can be read."
    return {"previews": accent.previews(shown), "note": note, "sample": SAMPLE}


async def change_branding(request: PageRequest) -> PageResponse:
    form, merchant_id = request.form, request.merchant_id
    contact = form.text("support_email", at_most=300), form.text("support_phone", at_most=300)
    try:
        picture = await _read_logo(request)
        await branding.change(request.db, merchant_id, form.text("accent", at_most=300), *contact)
        if picture is not None or form.is_checked("remove_logo"):
            await branding.set_logo(request.db, merchant_id, picture)
    except Refusal as refusal:
        at = ((logo.BadLogo, "logo"),)
        return request.form_with_errors("checkout.html", refusal, at=at, **await _checkout(request))
    return request.redirect("~/checkout", done="Branding saved.")


async def _read_logo(request: PageRequest) -> bytes | None:
    """Returns the uploaded logo as a re-encoded image, or None if no file was uploaded."""
    if not request.form.has_file("logo"):
        return None
    await uploads.count(request)
    return await logo.encode(request.form.file("logo").content)


async def choose_receipts(request: PageRequest) -> PageResponse:
    sends = request.form.is_checked("receipts")
    await _change(request, MerchantUpdate(sends_receipts=sends))
    done = "Saved. Customers get receipts." if sends else "Saved. Customers get no receipts."
    return request.redirect("~/checkout", done=done)


async def choose_wrong_amounts(request: PageRequest) -> PageResponse:
    """Saves the merchant's rules for bank transfers that are too high or too low."""
    overpaid = request.form.choice("overpaid", OverpaidRule)
    underpaid = request.form.choice("underpaid", UnderpaidRule)
    await _change(request, MerchantUpdate(overpaid=overpaid, underpaid=underpaid))
    return request.redirect("~/checkout", done="Saved. The rules apply to new transfers.")


async def show_commission(request: PageRequest) -> PageResponse:
    return request.page("commission.html", **await _example(request))


async def show_example(request: PageRequest) -> PageResponse:
    """Renders the commission example, which is reloaded as the user types an amount."""
    return request.page("commission_example.html", **await _example(request))


async def _example(request: PageRequest) -> dict[str, Any]:
    merchant = await merchants.get(request.db, request.merchant_id)
    amount = _amount(request, merchant.currencies[0])
    services = request.services
    caller = await services.directory.read(request.environment, request.merchant_id)
    return {
        "merchant": merchant,
        "amount": amount,
        "quotes": [
            (bearer, commission.quote(services.prices, caller, amount, bearer).quote)
            for bearer in CommissionBearer
        ],
        "production": Environment.PRODUCTION,
        "has_plan": bool(services.prices.versions(request.merchant_id, datetime.now(UTC))),
    }


async def show_prices(request: PageRequest) -> PageResponse:
    merchant = await merchants.get(request.db, request.merchant_id)
    return request.page(
        "prices.html",
        percent=merchant.commission_percent,
        currencies=[_prices(request, currency) for currency in merchant.currencies],
    )


def _prices(request: PageRequest, currency: str) -> dict[str, Any]:
    """Returns the prices and taxes in a currency, with worked amounts."""
    book, now = request.services.prices, datetime.now(UTC)
    where = None, request.environment
    amounts = [Money.of(amount, currency) for amount in PRICE_EXAMPLES]
    methods = request.services.methods
    names = {**methods.names(MethodKind.DEPOSIT), **methods.names(MethodKind.WITHDRAW)}
    lines = [
        (line, version.merchant_id != 0)
        for version in book.versions(request.merchant_id, now)
        for line in version.content.lines
        if line.currency == currency and line.environment in where
    ]
    directions = {line.direction for line, _ in lines if line.method is None and line.way is None}
    return {
        "currency": currency,
        "amounts": amounts,
        "worked": [
            (wording.of_line(line, names), is_own, [line.terms.of(amount) for amount in amounts])
            for line, is_own in lines
        ],
        "has_payments": PriceDirection.PAYMENT in directions,
        "has_payouts": PriceDirection.PAYOUT in directions,
        "taxes": [
            (wording.name_of(rule.name), wording.describe_tax(rule.content))
            for rule in book.rules(now)
            if rule.content.currency == currency
            and rule.content.environment in where
            and (rule.content.percent or rule.content.fixed_minor)
        ],
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
