"""The customer's web pages: hosted payment pages, and a demo bank that sends transfers."""

from collections.abc import Awaitable, Callable
from itertools import chain, islice

from aiohttp import web
from aiohttp.typedefs import Handler

from manilla.kit.amount_input import parse_amount
from manilla.kit.money import Money, MoneyError
from manilla_simulator import charges, mandates
from manilla_simulator.charges import NotExact
from manilla_simulator.provider import Provider
from manilla_simulator.rendering import add_static, render
from manilla_simulator.state import CURRENCY, Charge, ChargeStatus, MandateStatus
from manilla_simulator.transfers import NotPossible
from manilla_simulator.world import World

MANDATE_ACTIONS = {"confirm": MandateStatus.ACTIVE, "reject": MandateStatus.FAILED}
ACCOUNTS_SHOWN = 8
ACCOUNTS_LOOKED_AT = 200


def add_routes(app: web.Application, world: World) -> None:
    add_static(app)
    for provider in world.providers.values():
        path = f"/{provider.wire.key}/checkout/{{token}}"
        app.router.add_get(path, _checkout(provider, _show))
        app.router.add_post(path, _checkout(provider, _choose))
        app.router.add_get(f"{path}/receipt", _checkout(provider, _receipt))
        app.router.add_get(f"/{provider.wire.key}/mandate/{{token}}", _mandate(provider))
        app.router.add_post(f"/{provider.wire.key}/mandate/{{token}}", _mandate(provider))
    app.router.add_get("/bank", _bank(world))
    app.router.add_post("/bank/{account_number}", _transfer(world))


CheckoutPage = Callable[[Provider, Charge, web.Request], Awaitable[web.StreamResponse]]


def _checkout(provider: Provider, page: CheckoutPage) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        charge = provider.charges.by_token.get(request.match_info["token"])
        if provider.faults.outage:
            return render("unavailable.html", 503, provider=provider)
        if charge is None or not charge.is_hosted:
            return render("unknown.html", 404, provider=provider)
        return await page(provider, charges.refreshed(charge), request)

    return handle


async def _show(provider: Provider, charge: Charge, _request: web.Request) -> web.StreamResponse:
    if charge.status is not ChargeStatus.PENDING:
        raise _receipt_of(provider, charge)
    charge.was_opened = True
    return render("checkout.html", provider=provider, charge=charge)


async def _choose(provider: Provider, charge: Charge, request: web.Request) -> web.StreamResponse:
    """Pays or declines the charge. Submitting the form again only shows the charge's receipt."""
    form = await request.post()
    if form.get("action") == "cancel":
        raise _receipt_of(provider, charge, "?canceled=yes")
    if charge.status is ChargeStatus.PENDING:
        match form.get("card"):
            case "approved":
                charges.pay(provider, charge)
            case "declined":
                charges.decline(provider, charge, charges.DECLINED)
            case "insufficient":
                charges.decline(provider, charge, charges.INSUFFICIENT_FUNDS)
            case _:
                message = "Choose a card to pay with."
                return render("checkout.html", 400, provider=provider, charge=charge, error=message)
    raise _receipt_of(provider, charge)


async def _receipt(provider: Provider, charge: Charge, request: web.Request) -> web.StreamResponse:
    canceled = charge.status is ChargeStatus.PENDING
    if canceled and "canceled" not in request.query:
        raise web.HTTPSeeOther(f"/{provider.wire.key}/checkout/{charge.token}")
    return render(
        "receipt.html",
        provider=provider,
        charge=charge,
        canceled=canceled,
        insufficient=charge.reason == charges.INSUFFICIENT_FUNDS,
        address=charges.return_address(provider, charge, canceled=canceled),
    )


def _mandate(provider: Provider) -> Handler:
    """The page on which a customer confirms a mandate, or rejects it."""

    async def handle(request: web.Request) -> web.StreamResponse:
        mandate = mandates.by_token(provider, request.match_info["token"])
        if mandate is None:
            return render("unknown.html", 404, provider=provider)
        action = (await request.post()).get("action") if request.method == "POST" else None
        if action in MANDATE_ACTIONS and mandate.status is MandateStatus.PENDING:
            mandates.change(provider, mandate, MANDATE_ACTIONS[str(action)])
        return render("mandate.html", provider=provider, mandate=mandate)

    return handle


def _receipt_of(provider: Provider, charge: Charge, query: str = "") -> web.HTTPSeeOther:
    path = f"/{provider.wire.key}/checkout/{charge.token}/receipt{query}"
    return web.HTTPSeeOther(path)


def _bank(world: World) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        account_number = "".join(request.query.get("account", "").split())[:20]
        if not account_number:
            return render("bank.html", waiting=_waiting(world), account_number="", error=None)
        found = world.find_account(account_number)
        if found is None:
            error = "No account has this number. Check it and try again."
            waiting = _waiting(world)
            return render(
                "bank.html", 404, waiting=waiting, account_number=account_number, error=error
            )
        return _show_account(*found, account_number)

    return handle


def _waiting(world: World) -> list[Charge]:
    """Returns the open charges with virtual accounts, newest first."""
    newest = chain.from_iterable(
        islice(provider.charges.select(), ACCOUNTS_LOOKED_AT)
        for provider in world.providers.values()
    )
    waiting = [
        charge
        for charge in newest
        if charge.accounts and charges.refreshed(charge).status is ChargeStatus.PENDING
    ]
    return sorted(waiting, key=lambda charge: charge.created_at, reverse=True)[:ACCOUNTS_SHOWN]


def _show_account(
    provider: Provider, charge: Charge, account_number: str, error: str | None = None
) -> web.Response:
    charges.refreshed(charge)
    account = next(each for each in charge.accounts if each.account_number == account_number)
    tenth = _tenth(charge)
    return render(
        "account.html",
        400 if error else 200,
        provider=provider,
        charge=charge,
        account=account,
        error=error,
        less=charge.expected - tenth,
        more=charge.expected + tenth,
    )


def _transfer(world: World) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        account_number = request.match_info["account_number"]
        found = world.find_account(account_number)
        if found is None:
            raise web.HTTPSeeOther("/bank")
        provider, charge = found
        form = await request.post()
        try:
            amount = _amount(str(form.get("choice", "")), str(form.get("amount", "")), charge)
            if form.get("choice") == "late" and charge.status is ChargeStatus.PENDING:
                charges.expire(charge)
            charges.pay(provider, charges.refreshed(charge), amount)
        except MoneyError as error:
            return _show_account(provider, charge, account_number, str(error))
        except NotExact:
            return render("transferred.html", 422, provider=provider, charge=charge, returned=True)
        except NotPossible:
            error_text = "This account has already been paid and accepts no more money."
            return _show_account(provider, charge, account_number, error_text)
        return render("transferred.html", provider=provider, charge=charge, returned=False)

    return handle


def _amount(choice: str, other: str, charge: Charge) -> Money:
    match choice:
        case "exact" | "late":
            return charge.expected
        case "less":
            return charge.expected - _tenth(charge)
        case "more":
            return charge.expected + _tenth(charge)
        case "other":
            amount = parse_amount(other, CURRENCY)
            if amount.minor > 0:
                return amount
    raise MoneyError("Choose how much to transfer.")


def _tenth(charge: Charge) -> Money:
    return Money(CURRENCY, max(1, charge.expected.minor // 10))
