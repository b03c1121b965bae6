"""Defines the roles and permissions of dashboard users and console users."""

from enum import StrEnum


class Realm(StrEnum):
    """Dashboard or console. A user belongs to one realm and has no access to the other realm."""

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
    # See keys, rotate sandbox keys and read request logs. Rotating production keys also needs
    # MOVE_MONEY, because it reveals a secret that can create payouts.
    USE_CREDENTIALS = "use_credentials"
    CONFIGURE = "configure"  # change gateways and commission bearer, redeliver notifications
    MOVE_MONEY = "move_money"  # create payouts and refunds, save accounts, add sandbox funds
    MANAGE_TEAM = "manage_team"
    PROFILE = "profile"  # edit KYC, phone and BVN
    # Console permissions.
    CONSOLE_VIEW = "console_view"
    MERCHANTS = "merchants"  # approve merchants and review their KYC
    PAYOUT_DESK = "payout_desk"  # decide on manual payouts, cases and refunds
    # Make adjustments and settlements without approval. A user who has only PAYOUT_DESK can request
    # them, and another administrator approves.
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
    """Returns the role's permissions, or an empty set for None and for unknown roles."""
    return frozenset() if role is None else _PERMISSIONS.get(role, frozenset())
