"""Routes and navigation of the console."""

from importlib import resources
from pathlib import Path

from litestar import Router

from manilla.console.approvals import ApprovalPages
from manilla.console.audit import AuditPages
from manilla.console.cases import CasePages
from manilla.console.finding import RequestPages
from manilla.console.jobs import JobPages
from manilla.console.ledger import LedgerPages
from manilla.console.merchants import MerchantPages
from manilla.console.methods import MethodPages
from manilla.console.notifications import NotificationDesk
from manilla.console.overview import Overview
from manilla.console.payouts import PayoutDesk
from manilla.console.people import PeoplePages
from manilla.console.providers import ProviderPages
from manilla.console.refunds import RefundPages
from manilla.console.settings import SettingPages
from manilla.console.system import SystemPages
from manilla.console.transactions import TransactionPages
from manilla.console.wallets import WalletPages
from manilla.people.roles import Permission, Realm
from manilla.services import Services
from manilla.web import account
from manilla.web.authentication import Authentication
from manilla.web.layout import Item, Layout, Section
from manilla.web.routes import Route

TEMPLATES = Path(str(resources.files("manilla.console"))) / "templates"

NAVIGATION = (
    Section(
        "",
        (
            Item("Overview", "/", "home", Permission.CONSOLE_VIEW),
            Item("Merchants", "/merchants", "building-store", Permission.CONSOLE_VIEW),
            Item("Transactions", "/transactions", "arrows-exchange", Permission.CONSOLE_VIEW),
        ),
    ),
    Section(
        "Queues",
        (
            Item("Manual payouts", "/payouts", "hand-stop", Permission.CONSOLE_VIEW),
            Item("Refunds", "/refunds", "receipt-refund", Permission.CONSOLE_VIEW),
            Item("Cases", "/cases", "gavel", Permission.CONSOLE_VIEW),
            Item("Approvals", "/approvals", "circle-check", Permission.CONSOLE_VIEW),
            Item("Notifications", "/notifications", "bell", Permission.CONSOLE_VIEW),
            Item("Failed jobs", "/jobs", "inbox", Permission.CONSOLE_VIEW),
        ),
    ),
    Section(
        "Money",
        (
            Item("Providers", "/providers", "plug-connected", Permission.CONSOLE_VIEW),
            Item("Methods", "/methods", "adjustments", Permission.CONSOLE_VIEW),
            Item("Ledger", "/ledger", "scale", Permission.CONSOLE_VIEW),
        ),
    ),
    Section(
        "Platform",
        (
            Item("Settings", "/settings", "settings", Permission.CONSOLE_VIEW),
            Item("People", "/people", "users", Permission.PEOPLE),
            Item("Audit log", "/audit", "history", Permission.CONSOLE_VIEW),
            Item("System", "/system", "heart-rate-monitor", Permission.CONSOLE_VIEW),
        ),
    ),
)


def table(services: Services) -> list[Route]:
    return [
        *account.ROUTES,
        *Overview(services).routes(),
        *MerchantPages(services).routes(),
        *WalletPages(services).routes(),
        *ApprovalPages(services).routes(),
        *PeoplePages(services).routes(),
        *AuditPages(services).routes(),
        *PayoutDesk(services).routes(),
        *RefundPages(services).routes(),
        *CasePages(services).routes(),
        *JobPages(services).routes(),
        *NotificationDesk(services).routes(),
        *TransactionPages(services).routes(),
        *RequestPages(services).routes(),
        *ProviderPages(services).routes(),
        *MethodPages(services).routes(),
        *LedgerPages(services).routes(),
        *SettingPages(services).routes(),
        *SystemPages(services).routes(),
    ]


def build(services: Services) -> Router:
    layout = Layout(Realm.CONSOLE, services, TEMPLATES, NAVIGATION)
    authentication = Authentication(layout, needs_second_factor=not services.is_development)
    return authentication.router(table(services))
