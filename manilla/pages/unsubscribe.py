"""The page behind the links to unsubscribe in emails.

Opening the link changes nothing, because programs that check emails open links too. Mail programs
that unsubscribe in one step send a POST request without any cookie (RFC 8058), so the form has no
CSRF token; the signed token in the URL is enough.
"""

from collections.abc import Callable
from typing import Any

from litestar import MediaType, Request, Response, get, post

from manilla.kit.errors import Refusal
from manilla.mail import choices
from manilla.mail.kinds import RULES
from manilla.services import Services

PATH = choices.UNSUBSCRIBE + "{token:str}"


def handlers(services: Services, render: Callable[..., str]) -> list[Any]:
    def respond(status: int, **values: Any) -> Response[str]:
        text = render("unsubscribe.html", **values)
        headers = {"Cache-Control": "no-store"}
        return Response(text, status_code=status, media_type=MediaType.HTML, headers=headers)

    def token_of(request: Request[Any, Any, Any]) -> str:
        return str(request.path_params["token"])

    def failed(refusal: Refusal) -> Response[str]:
        return respond(refusal.status, title=None, problem=refusal.text, is_done=False)

    @get(PATH)
    async def show(request: Request[Any, Any, Any]) -> Response[str]:
        try:
            kind = choices.read_token(services.keyring, token_of(request)).kind
        except Refusal as refusal:
            return failed(refusal)
        return respond(200, title=RULES[kind].title, problem=None, is_done=False)

    @post(PATH, status_code=200)
    async def unsubscribe(request: Request[Any, Any, Any]) -> Response[str]:
        try:
            done = await choices.unsubscribe(services.db, services.keyring, token_of(request))
        except Refusal as refusal:
            return failed(refusal)
        return respond(200, title=RULES[done.kind].title, problem=None, is_done=True)

    return [show, unsubscribe]
