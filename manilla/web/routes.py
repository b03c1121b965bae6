"""Route tables: each route with the permissions that it requires.

Every page and form has a row in a route table. For each row, tests check that requests without
the permission, for another merchant or with a forged form are rejected.
"""

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from manilla.kit.environment import Environment
from manilla.people.roles import Permission
from manilla.web.page_request import PageRequest
from manilla.web.serving.request import BODY_BYTES_MAX
from manilla.web.serving.response import PageResponse

Handler = Callable[[PageRequest], Awaitable[PageResponse]]

# Marks routes that every signed-in user can use, such as the user's own account and sign-out.
SIGNED_IN: Literal["signed_in"] = "signed_in"
Needs = Permission | Literal["signed_in"] | None  # None for a public route


class Route(msgspec.Struct, frozen=True):
    """A row of a route table: `Route("GET", "/team", team.show, Permission.VIEW)`."""

    method: Literal["GET", "POST"]
    path: str  # the path below `/dashboard` or `/console`
    handler: Handler
    needs: Needs
    # An additional permission that the user needs if the route can affect production.
    needs_in_production: Permission | None = None
    step_up: bool = False  # whether the user must confirm their identity
    # Whether the handler validates the form before it calls `PageRequest.confirm_identity`.
    checks_first: bool = False
    # Whether users who must set up a second factor can use the route.
    enrolls: bool = False
    # Whether the route changes the user's account for all of the user's merchants.
    is_account_wide: bool = False
    # Whether the route affects sandbox and production, although its path contains one of them.
    in_both_environments: bool = False
    body_bytes_max: int = BODY_BYTES_MAX
    is_page: bool = True  # False if the response is a file or a part of a page

    @property
    def is_public(self) -> bool:
        return self.needs is None

    def affects_production(self, environment: Environment | None) -> bool:
        """Returns whether the route can affect the production environment."""
        return self.in_both_environments or environment is not Environment.SANDBOX
