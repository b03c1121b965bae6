"""Roles and permissions: one table for the dashboard, one for the console."""

from enum import StrEnum


class Realm(StrEnum):
    """Dashboard or console. Users and sessions belong to one realm, with no access to the other."""

    DASHBOARD = "dashboard"
    CONSOLE = "console"


class Role(StrEnum):
    """A user's role with a merchant."""

    OWNER = "owner"
    DEVELOPER = "developer"
    FINANCE = "finance"
    VIEWER = "viewer"


class ConsoleRole(StrEnum):
    ADMINISTRATOR = "administrator"
    OPERATIONS = "operations"
    SUPPORT = "support"


class Permission(StrEnum):
    # Dashboard permissions.
    VIEW = "view"
    # Permission to see the keys in use, rotate sandbox keys and read request logs. Rotating
    # production keys also needs MOVE_MONEY, because it reveals a secret that can create payouts.
    USE_CREDENTIALS = "use_credentials"
    CONFIGURE = "configure"  # change gateways and commission bearer, redeliver notifications
    MOVE_MONEY = "move_money"  # create payouts and refunds, save accounts, add sandbox funds
    MANAGE_TEAM = "manage_team"
    PROFILE = "profile"  # edit KYC, phone and BVN
    # Console permissions.
    CONSOLE_VIEW = "console_view"
    MERCHANTS = "merchants"  # decide on merchants' approval and KYC
    PAYOUT_DESK = "payout_desk"  # decide on manual payouts, cases and refunds
    # Permission to make adjustments and settlements without approval. A user with PAYOUT_DESK alone
    # can request them, and another administrator approves.
    MONEY_ALONE = "money_alone"
    PLATFORM = "platform"  # change settings, methods, providers and commissions
    PEOPLE = "people"
    SUPPORT_TOOLS = "support_tools"  # redeliver notifications and retry failed jobs


P = Permission

_PERMISSIONS: dict[str, frozenset[Permission]] = {
    Role.OWNER: frozenset(
        {P.VIEW, P.USE_CREDENTIALS, P.CONFIGURE, P.MOVE_MONEY, P.MANAGE_TEAM, P.PROFILE}
    ),
    Role.DEVELOPER: frozenset({P.VIEW, P.USE_CREDENTIALS, P.CONFIGURE}),
    Role.FINANCE: frozenset({P.VIEW, P.MOVE_MONEY}),
    Role.VIEWER: frozenset({P.VIEW}),
    ConsoleRole.ADMINISTRATOR: frozenset(
        {
            P.CONSOLE_VIEW,
            P.MERCHANTS,
            P.PAYOUT_DESK,
            P.MONEY_ALONE,
            P.PLATFORM,
            P.PEOPLE,
            P.SUPPORT_TOOLS,
        }
    ),
    ConsoleRole.OPERATIONS: frozenset(
        {P.CONSOLE_VIEW, P.MERCHANTS, P.PAYOUT_DESK, P.SUPPORT_TOOLS}
    ),
    ConsoleRole.SUPPORT: frozenset({P.CONSOLE_VIEW, P.SUPPORT_TOOLS}),
}


def permissions_of(role: str | None) -> frozenset[Permission]:
    """Returns the role's permissions; none for an unknown role or None."""
    return frozenset() if role is None else _PERMISSIONS.get(role, frozenset())
