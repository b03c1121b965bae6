"""What other cells read from this cell: its figures, its merchants, and how to route to them.

A token that this cell issued gives access. It permits nothing else.
"""

from collections.abc import Awaitable, Callable

import msgspec

from manilla.cells import overview, registry, report
from manilla.cells.client import OVERVIEW_PATH, ROUTES_PATH
from manilla.kit.errors import Refusal
from manilla.ledger.trx_ids import MERCHANT_ID_MAX
from manilla.providers import credentials
from manilla.services import Services
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler

NO_STORE = {"Cache-Control": "no-store"}


class TokenNotAccepted(Refusal):
    status, code = 401, "INVALID_TOKEN"
    message = "The token is missing, or it is not valid in this cell."


Answer = Callable[[WebRequest], Awaitable[msgspec.Struct]]


def handlers(services: Services) -> list[UrlHandler]:
    async def show_overview(_request: WebRequest) -> msgspec.Struct:
        cells, currencies = services.cells.now, services.methods.currencies
        return await overview.read(services.db, cells, currencies)

    async def show_routes(request: WebRequest) -> msgspec.Struct:
        accounts = await credentials.usable(services.db, services.keyring)
        after = _number(request.query.get("after", "0"))
        return await report.read(
            services.db, services.cells.now, services.base_url, accounts, after
        )

    return [
        UrlHandler("GET", OVERVIEW_PATH, _guarded(services, show_overview)),
        UrlHandler("GET", ROUTES_PATH, _guarded(services, show_routes)),
    ]


def _guarded(services: Services, answer: Answer) -> Callable[[WebRequest], Awaitable[PageResponse]]:
    async def respond(request: WebRequest) -> PageResponse:
        await services.watch.ensure_fresh()
        if services.cells.now.this is None:
            raise PageNotFound
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        is_known = scheme.lower() == "bearer" and await registry.reader(services.db, token.strip())
        if not is_known:
            raise TokenNotAccepted
        document = msgspec.json.encode(await answer(request))
        return PageResponse(document, media_type="application/json", headers=NO_STORE)

    return respond


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MERCHANT_ID_MAX))):
        raise PageNotFound
    return int(text)
