"""The page that the unsubscribe links in emails open.

Opening the page changes nothing, because email scanners also open links. Mail programs with
one-click unsubscribe send a POST request without cookies (RFC 8058), so the form has no CSRF token.
The signed token in the URL authorizes the request.
"""

from collections.abc import Callable
from typing import Any

from manilla.kit.errors import Refusal
from manilla.mail import choices
from manilla.mail.kinds import RULES
from manilla.services import Services
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import UrlHandler

PATH = choices.UNSUBSCRIBE + "{token:str}"


def handlers(services: Services, render: Callable[..., str]) -> list[UrlHandler]:
    def respond(status: int, **values: Any) -> PageResponse:
        text = render("unsubscribe.html", **values)
        return PageResponse.html(text, status, headers={"Cache-Control": "no-store"})

    def token_of(request: WebRequest) -> str:
        return str(request.parameters["token"])

    def failed(refusal: Refusal) -> PageResponse:
        return respond(refusal.status, title=None, problem=refusal.text, is_done=False)

    async def show(request: WebRequest) -> PageResponse:
        try:
            kind = choices.read_token(services.keyring, token_of(request)).kind
        except Refusal as refusal:
            return failed(refusal)
        return respond(200, title=RULES[kind].title, problem=None, is_done=False)

    async def unsubscribe(request: WebRequest) -> PageResponse:
        try:
            done = await choices.unsubscribe(services.db, services.keyring, token_of(request))
        except Refusal as refusal:
            return failed(refusal)
        return respond(200, title=RULES[done.kind].title, problem=None, is_done=True)

    return [UrlHandler("GET", PATH, show), UrlHandler("POST", PATH, unsubscribe)]
