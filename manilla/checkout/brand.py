"""Serves merchants' logos for checkout, receipts and emails."""

from manilla.merchants.branding import LOGO_PATH, read_logo
from manilla.services import Services
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler

HEADERS = {"Cache-Control": "max-age=31536000, public, immutable"}
MERCHANT_DIGITS_MAX = 18


def logo_handler(services: Services) -> UrlHandler:
    async def send(request: WebRequest) -> PageResponse:
        merchant, file = (str(request.parameters[name]) for name in ("merchant", "file"))
        version, dot, kind = file.partition(".")
        is_number = merchant.isascii() and merchant.isdigit()
        if not is_number or len(merchant) > MERCHANT_DIGITS_MAX or (dot, kind) != (".", "png"):
            raise PageNotFound
        content = await read_logo(services.db, int(merchant), version)
        if content is None:
            raise PageNotFound
        return PageResponse(content, media_type="image/png", headers=HEADERS)

    return UrlHandler("GET", LOGO_PATH + "/{merchant:str}/{file:str}", send)
