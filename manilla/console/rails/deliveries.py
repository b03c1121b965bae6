"""The rails page: health, success rates for each bank, and the form that stops new payouts."""

from manilla.console.providers import titles
from manilla.providers import draining
from manilla.providers.port import Direction
from manilla.routing.overview import overview
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound


async def show_all(request: PageRequest) -> PageResponse:
    services = request.services
    accounts = services.rails.accounts.items()
    active = [name for name, each in accounts if any(map(each.is_open, Direction))]
    rails = await overview(request.db, active, services.deliveries.bank_code)
    calls = await services.rails.health.overview()
    health = {(rail.provider, rail.direction): rail for rail in calls}
    return request.page("rails.html", rails=rails, titles=titles(request), health=health)


async def drain(request: PageRequest) -> PageResponse:
    await draining.drain(request.db, _provider(request))
    done = "drained: it gets no new payouts. Payouts already sent are still tracked."
    return _done(request, done)


async def undrain(request: PageRequest) -> PageResponse:
    await draining.undrain(request.db, _provider(request))
    return _done(request, "no longer drained: it gets new payouts again.")


def _done(request: PageRequest, text: str) -> PageResponse:
    return request.redirect("/rails", done=f"{titles(request)[_provider(request)]} is {text}")


def _provider(request: PageRequest) -> str:
    provider = request.parameter("provider")
    if provider not in request.services.rails.accounts:
        raise PageNotFound
    return provider
