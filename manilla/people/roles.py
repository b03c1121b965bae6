"""Defines the roles and permissions of dashboard users and console users."""

from enum import StrEnum


class Realm(StrEnum):
    """The dashboard or the console. A user has access to only one of them."""

    DASHBOARD = "dashboard"
    CONSOLE = "console"


class Role(StrEnum):
    """A dashboard user's role at a merchant."""

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
    # Lets users see keys, rotate sandbox keys and read request logs.
    # Rotating production keys also needs MOVE_MONEY, because new keys can create payouts.
    USE_CREDENTIALS = "use_credentials"
    # Lets users change gateways and the commission bearer, and redeliver notifications.
    CONFIGURE = "configure"
    # Lets users create payouts and refunds, save accounts and add sandbox funds.
    MOVE_MONEY = "move_money"
    MANAGE_TEAM = "manage_team"
    PROFILE = "profile"  # edit KYC, phone and BVN
    # Console permissions.
    CONSOLE_VIEW = "console_view"
    MERCHANTS = "merchants"  # lets users approve merchants and review their KYC
    PAYOUT_DESK = "payout_desk"  # lets users decide on manual payouts, cases and refunds
    # Lets users make adjustments and settlements without approval.
    # Users with only PAYOUT_DESK can request adjustments, which an administrator approves.
    MONEY_ALONE = "money_alone"
    PLATFORM = "platform"  # lets users change settings, methods, providers and commissions
    PEOPLE = "people"
    SUPPORT_TOOLS = "support_tools"  # lets users redeliver notifications and retry failed jobs


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
    """Returns a role's permissions, or an empty set for an unknown role."""
    return frozenset() if role is None else _PERMISSIONS.get(role, frozenset())
