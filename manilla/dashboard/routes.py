"""Routes and navigation of the dashboard."""

from importlib import resources
from pathlib import Path

from litestar import Router

from manilla.dashboard.accounts import AccountPages
from manilla.dashboard.bulk import BulkPages
from manilla.dashboard.configuration import Configuration
from manilla.dashboard.credentials import CredentialPages
from manilla.dashboard.desk import Desk
from manilla.dashboard.explorer import Explorer
from manilla.dashboard.home import Home
from manilla.dashboard.notifications import NotificationPages
from manilla.dashboard.payments import PaymentPages
from manilla.dashboard.payouts import PayoutPages
from manilla.dashboard.profile import Profile
from manilla.dashboard.receipts import ReceiptPages, verification
from manilla.dashboard.requests import RequestPages
from manilla.dashboard.sign_up import SignUp
from manilla.dashboard.team import Team
from manilla.dashboard.wallets import WalletPages
from manilla.people.roles import Permission, Realm
from manilla.web import account
from manilla.web.authentication import Authentication
from manilla.web.layout import Item, Layout, Section
from manilla.web.routes import Route

TEMPLATES = Path(str(resources.files("manilla.dashboard"))) / "templates"

NAVIGATION = (
    Section(
        "",
        (
            Item("Home", "~", "home", Permission.VIEW),
            Item("Payments", "~/payments", "arrow-down-left", Permission.VIEW),
            Item("Wallets", "~/wallets", "wallet", Permission.VIEW),
        ),
    ),
    Section(
        "Withdraw",
        (
            Item("Payouts", "~/payouts", "arrow-up-right", Permission.VIEW),
            Item("Saved accounts", "~/accounts", "building-bank", Permission.VIEW),
        ),
    ),
    Section(
        "Developers",
        (
            Item("Credentials", "~/credentials", "key", Permission.USE_CREDENTIALS),
            Item("Notifications", "~/notifications", "bell", Permission.VIEW),
            Item("API requests", "~/requests", "api", Permission.USE_CREDENTIALS),
            Item("API explorer", "~/explorer", "player-play", Permission.USE_CREDENTIALS),
        ),
    ),
    Section(
        "API Config",
        (
            Item("Payment Gateway Controls", "~/gateways", "adjustments", Permission.VIEW),
            Item("API Commission", "~/commission", "percentage", Permission.VIEW),
        ),
    ),
    Section(
        "Business",
        (
            Item("Team", "/team", "users", Permission.VIEW),
            Item("Business profile", "/profile", "building-store", Permission.VIEW),
        ),
    ),
)


def table(desk: Desk) -> list[Route]:
    return [
        *account.Account(desk.db, desk.keyring, Realm.DASHBOARD, desk.mailer).routes(),
        *SignUp(desk).routes(),
        *Home(desk).routes(),
        *CredentialPages(desk).routes(),
        *Configuration(desk).routes(),
        *PaymentPages(desk).routes(),
        *PayoutPages(desk).routes(),
        *BulkPages(desk).routes(),
        *ReceiptPages(desk).routes(),
        *AccountPages(desk).routes(),
        *WalletPages(desk).routes(),
        *NotificationPages(desk).routes(),
        *RequestPages(desk).routes(),
        *Explorer(desk).routes(),
        *Team(desk).routes(),
        *Profile(desk).routes(),
    ]


def build(desk: Desk) -> Router:
    layout = Layout(
        Realm.DASHBOARD,
        desk.platform,
        TEMPLATES,
        NAVIGATION,
        base_url=desk.base_url,
        trusted_proxies=desk.trusted_proxies,
        demo_login=desk.demo_login,
        is_development=desk.is_development,
    )
    realm = Authentication(layout, desk.db, desk.keyring).router(table(desk))
    return Router(path="/", route_handlers=[realm, verification(desk, layout)])
