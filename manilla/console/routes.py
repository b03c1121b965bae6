"""Routes and navigation of the console."""

from importlib import resources
from pathlib import Path

from litestar import Router

from manilla.console.approvals import ApprovalPages
from manilla.console.audit import AuditPages
from manilla.console.cases import CasePages
from manilla.console.desk import ConsoleDesk
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


def table(desk: ConsoleDesk) -> list[Route]:
    return [
        *account.Account(desk.db, desk.keyring, Realm.CONSOLE, desk.mailer).routes(),
        *Overview(desk).routes(),
        *MerchantPages(desk).routes(),
        *WalletPages(desk).routes(),
        *ApprovalPages(desk).routes(),
        *PeoplePages(desk).routes(),
        *AuditPages(desk).routes(),
        *PayoutDesk(desk).routes(),
        *RefundPages(desk).routes(),
        *CasePages(desk).routes(),
        *JobPages(desk).routes(),
        *NotificationDesk(desk).routes(),
        *TransactionPages(desk).routes(),
        *RequestPages(desk).routes(),
        *ProviderPages(desk).routes(),
        *MethodPages(desk).routes(),
        *LedgerPages(desk).routes(),
        *SettingPages(desk).routes(),
        *SystemPages(desk).routes(),
    ]


def build(desk: ConsoleDesk) -> Router:
    layout = Layout(
        Realm.CONSOLE,
        desk.platform,
        TEMPLATES,
        NAVIGATION,
        base_url=desk.base_url,
        trusted_proxies=desk.trusted_proxies,
        demo_login=desk.demo_login,
        is_development=desk.is_development,
    )
    authentication = Authentication(
        layout, desk.db, desk.keyring, needs_second_factor=not desk.is_development
    )
    return authentication.router(table(desk))
