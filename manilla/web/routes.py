"""The table of a realm's addresses: what each needs of whoever asks for it.

Every page and form stands in such a table, so that tests can go through all of them: nobody without
the permission, of another merchant or with a forged form gets past the door.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from litestar import Response

from manilla.people.roles import Permission
from manilla.web.visit import Visit

Answer = Response[Any]
Handler = Callable[[Visit], Awaitable[Answer]]

BODY_BYTES_MAX = 64 * 1024

# Whoever is signed in may, whatever their role: their own account, and the way out.
SIGNED_IN: Literal["signed_in"] = "signed_in"
Needs = Permission | Literal["signed_in"] | None  # None: open to everybody, signed in or not


class Route(msgspec.Struct, frozen=True, kw_only=True):
    method: Literal["GET", "POST"]
    path: str  # below the realm's root
    handler: Handler
    needs: Needs
    step_up: bool = False  # whether they must have shown again, just now, who they are
    body_bytes_max: int = BODY_BYTES_MAX
    is_page: bool = True  # or a part of one, or a file

    @property
    def is_public(self) -> bool:
        return self.needs is None


def page(path: str, handler: Handler, needs: Needs) -> Route:
    return Route(method="GET", path=path, handler=handler, needs=needs)


def part(path: str, handler: Handler, needs: Needs) -> Route:
    """A part of a page for a script that asks for it, or a file."""
    return Route(method="GET", path=path, handler=handler, needs=needs, is_page=False)


def form(
    path: str,
    handler: Handler,
    needs: Needs,
    *,
    step_up: bool = False,
    body_bytes_max: int = BODY_BYTES_MAX,
) -> Route:
    return Route(
        method="POST",
        path=path,
        handler=handler,
        needs=needs,
        step_up=step_up,
        body_bytes_max=body_bytes_max,
    )
