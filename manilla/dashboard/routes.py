"""Routes and navigation of the dashboard."""

from importlib import resources
from pathlib import Path

from litestar import Router

from manilla.dashboard.accounts import AccountPages
from manilla.dashboard.bulk import BulkPages
from manilla.dashboard.configuration import Configuration
from manilla.dashboard.credentials import CredentialPages
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
from manilla.services import Services
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


def table(services: Services) -> list[Route]:
    return [
        *account.ROUTES,
        *SignUp(services).routes(),
        *Home(services).routes(),
        *CredentialPages(services).routes(),
        *Configuration(services).routes(),
        *PaymentPages(services).routes(),
        *PayoutPages(services).routes(),
        *BulkPages(services).routes(),
        *ReceiptPages(services).routes(),
        *AccountPages(services).routes(),
        *WalletPages(services).routes(),
        *NotificationPages(services).routes(),
        *RequestPages(services).routes(),
        *Explorer(services).routes(),
        *Team(services).routes(),
        *Profile(services).routes(),
    ]


def build(services: Services) -> Router:
    layout = Layout(Realm.DASHBOARD, services, TEMPLATES, NAVIGATION)
    realm = Authentication(layout).router(table(services))
    return Router(path="/", route_handlers=[realm, verification(services, layout)])
