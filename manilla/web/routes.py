"""The table of a realm's addresses: what each needs of whoever asks for it.

Every page and form stands in such a table, so that tests can go through all of them: nobody without
the permission, of another merchant or with a forged form gets past the door.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from litestar import Response

from manilla.ledger.posting import Environment
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
    needs_in_production: Permission | None = None  # as well, where production can be affected
    step_up: bool = False  # whether they must have shown again, just now, who they are
    enrolls: bool = False  # open without a second factor where one is required
    in_both_environments: bool = False  # what it changes, whichever environment the path names
    body_bytes_max: int = BODY_BYTES_MAX
    is_page: bool = True  # or a part of one, or a file

    @property
    def is_public(self) -> bool:
        return self.needs is None

    def affects_production(self, environment: Environment | None) -> bool:
        """False only for what stays within the sandbox."""
        return self.in_both_environments or environment is not Environment.SANDBOX


def page(path: str, handler: Handler, needs: Needs, *, enrolls: bool = False) -> Route:
    return Route(method="GET", path=path, handler=handler, needs=needs, enrolls=enrolls)


def part(path: str, handler: Handler, needs: Needs) -> Route:
    """A part of a page for a script that asks for it, or a file."""
    return Route(method="GET", path=path, handler=handler, needs=needs, is_page=False)


def form(
    path: str,
    handler: Handler,
    needs: Needs,
    *,
    needs_in_production: Permission | None = None,
    step_up: bool = False,
    enrolls: bool = False,
    in_both_environments: bool = False,
    body_bytes_max: int = BODY_BYTES_MAX,
) -> Route:
    return Route(
        method="POST",
        path=path,
        handler=handler,
        needs=needs,
        needs_in_production=needs_in_production,
        step_up=step_up,
        enrolls=enrolls,
        in_both_environments=in_both_environments,
        body_bytes_max=body_bytes_max,
    )
