"""Route tables: each route with the permissions that it needs.

Every page and form is listed in such a table, so that tests can check for all of them that requests
without the permission, for another merchant or with a forged form are rejected.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from litestar import Response

from manilla.kit.environment import Environment
from manilla.people.roles import Permission
from manilla.web.page_request import PageRequest

Answer = Response[Any]
Handler = Callable[[PageRequest], Awaitable[Answer]]

BODY_BYTES_MAX = 64 * 1024

# Any signed-in user, whatever their role: for the own account and sign-out.
SIGNED_IN: Literal["signed_in"] = "signed_in"
Needs = Permission | Literal["signed_in"] | None  # None: public


class Route(msgspec.Struct, frozen=True):
    """A row of a route table: `Route("GET", "/team", team.show, Permission.VIEW)`."""

    method: Literal["GET", "POST"]
    path: str  # relative to the realm's root
    handler: Handler
    needs: Needs
    # additionally needed if production can be affected
    needs_in_production: Permission | None = None
    step_up: bool = False  # whether the user must have confirmed their identity recently
    enrolls: bool = False  # available without a second factor even if one is required
    # whether it changes both environments, whichever one the path names
    in_both_environments: bool = False
    body_bytes_max: int = BODY_BYTES_MAX
    is_page: bool = True  # or a part of a page, or a file

    @property
    def is_public(self) -> bool:
        return self.needs is None

    def affects_production(self, environment: Environment | None) -> bool:
        """False only for routes that affect nothing but the sandbox."""
        return self.in_both_environments or environment is not Environment.SANDBOX


def page(path: str, handler: Handler, needs: Needs, *, enrolls: bool = False) -> Route:
    return Route(method="GET", path=path, handler=handler, needs=needs, enrolls=enrolls)


def part(path: str, handler: Handler, needs: Needs) -> Route:
    """A part of a page requested by a script, or a file."""
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
