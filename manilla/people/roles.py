"""Who may do what: one table for the dashboard, one for the console."""

from enum import StrEnum


class Realm(StrEnum):
    """Two doors that never open each other."""

    DASHBOARD = "dashboard"
    CONSOLE = "console"


class Role(StrEnum):
    """What somebody is to a merchant."""

    OWNER = "owner"
    DEVELOPER = "developer"
    FINANCE = "finance"
    VIEWER = "viewer"


class ConsoleRole(StrEnum):
    ADMINISTRATOR = "administrator"
    OPERATIONS = "operations"
    SUPPORT = "support"


class Permission(StrEnum):
    # The dashboard.
    VIEW = "view"
    # See which keys are in use, rotate the sandbox's, read request logs. Rotating production keys
    # shows a secret that pays out through the API, so it needs MOVE_MONEY too.
    USE_CREDENTIALS = "use_credentials"
    CONFIGURE = "configure"  # gateways, who bears the commission, redelivery
    MOVE_MONEY = "move_money"  # payouts, refunds, saved accounts, the sandbox's money
    MANAGE_TEAM = "manage_team"
    PROFILE = "profile"  # KYC, phone, BVN
    # The console.
    CONSOLE_VIEW = "console_view"
    MERCHANTS = "merchants"  # approving them, their KYC
    PAYOUT_DESK = "payout_desk"  # manual payouts, cases, refunds
    # Adjustments and settlements by one's own word. Who has the payout desk but not this may ask
    # for them, and somebody else approves.
    MONEY_ALONE = "money_alone"
    PLATFORM = "platform"  # settings, methods, providers, commissions
    PEOPLE = "people"
    SUPPORT_TOOLS = "support_tools"  # redelivering notifications, running jobs again


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
    """A role that is not listed, or none, may do nothing."""
    return frozenset() if role is None else _PERMISSIONS.get(role, frozenset())
