"""Routes and navigation of the console."""

from importlib import resources
from pathlib import Path

from manilla.console import (
    approvals,
    audit,
    cases,
    disputes,
    jobs,
    ledger,
    lookup,
    mail,
    merchants,
    methods,
    notifications,
    overview,
    payouts,
    people,
    providers,
    reconciliation,
    refunds,
    settings,
    transactions,
)
from manilla.console.fees import invoices, margin, plans, tax_returns, taxes, trial
from manilla.console.installation import cells, system
from manilla.console.merchant import customers, dossier, keys, wallets
from manilla.console.merchant import listing as merchant_listing
from manilla.console.rails import banks
from manilla.console.rails import deliveries as rails
from manilla.people.roles import Permission, Realm
from manilla.services import Services
from manilla.web import account, money_story
from manilla.web.authentication import Authentication
from manilla.web.company import settings as company_settings
from manilla.web.company.pages import sign_out_handler
from manilla.web.layout import Layout, NavigationItem
from manilla.web.routes import Route
from manilla.web.serving.router import UrlHandler

TEMPLATES = Path(str(resources.files("manilla.console"))) / "templates"

VIEW, SUPPORT, PEOPLE = Permission.CONSOLE_VIEW, Permission.SUPPORT_TOOLS, Permission.PEOPLE
OPERATIONS, MERCHANTS = Permission.PAYOUT_DESK, Permission.MERCHANTS
PLATFORM, MONEY_ALONE = Permission.PLATFORM, Permission.MONEY_ALONE

NAVIGATION = {
    "": [
        NavigationItem("Overview", "/", "home", VIEW),
        NavigationItem("Merchants", "/merchants", "building-store", VIEW),
        NavigationItem("Customers", "/customers", "users", VIEW),
        NavigationItem("Transactions", "/transactions", "arrows-exchange", VIEW),
    ],
    "Queues": [
        NavigationItem("Manual payouts", "/payouts", "hand-stop", VIEW),
        NavigationItem("Refunds", "/refunds", "receipt-refund", VIEW),
        NavigationItem("Disputes", "/disputes", "arrow-back-up", VIEW),
        NavigationItem("Cases", "/cases", "gavel", VIEW),
        NavigationItem("Approvals", "/approvals", "circle-check", VIEW),
        NavigationItem("Notifications", "/notifications", "bell", VIEW),
        NavigationItem("Email", "/mail", "mail", VIEW),
        NavigationItem("Failed jobs", "/jobs", "inbox", VIEW),
    ],
    "Money": [
        NavigationItem("Providers", "/providers", "plug-connected", VIEW),
        NavigationItem("Rails", "/rails", "arrow-up-right", VIEW),
        NavigationItem("Methods", "/methods", "adjustments", VIEW),
        NavigationItem("Prices", "/prices", "coins", VIEW),
        NavigationItem("Taxes", "/taxes", "percentage", VIEW),
        NavigationItem("Banks", "/banks", "building-bank", VIEW),
        NavigationItem("Ledger", "/ledger", "scale", VIEW),
        NavigationItem("Reconciliation", "/reconciliation", "list-details", VIEW),
        NavigationItem("Invoices", "/invoices", "file-invoice", VIEW),
        NavigationItem("Tax returns", "/tax-returns", "percentage", VIEW),
        NavigationItem("Margin", "/margin", "chart-bar", VIEW),
    ],
    "Platform": [
        NavigationItem("Settings", "/settings", "settings", VIEW),
        NavigationItem("People", "/people", "users", PEOPLE),
        NavigationItem("Company sign-in", "/company-sign-in", "key", PEOPLE),
        NavigationItem("Audit log", "/audit", "history", VIEW),
        NavigationItem("System", "/system", "heart-rate-monitor", VIEW),
    ],
}
ACTIONS = [
    NavigationItem("Create a merchant", "/merchants/new", "plus", MERCHANTS),
    NavigationItem("Review pending merchants", "/merchants?status=pending", "clock", MERCHANTS),
    NavigationItem("Import a statement", "/reconciliation/import", "upload", OPERATIONS),
    NavigationItem("Check the ledger", "/ledger", "scale", VIEW),
]

PLAN = "/prices/plans/{plan:str}"
OWN_PRICES = "/merchants/{merchant:int}/prices"
DOSSIER = "/merchants/{merchant:int}/dossier"
DISPUTE = "/disputes/{dispute:str}"
INVOICE = "/invoices/{invoice:str}"

ROUTES = [
    *account.ROUTES,
    Route("GET", "/", overview.show, VIEW),
    Route("GET", "/search", lookup.show_search, VIEW),
    Route("GET", "/search/results", lookup.show_results, VIEW, is_page=False),
    Route("GET", "/merchants", merchant_listing.show_all, VIEW),
    Route("GET", "/merchants/names", merchant_listing.show_names, VIEW, is_page=False),
    Route("GET", "/merchants/new", merchants.show_new, MERCHANTS),
    Route("POST", "/merchants/new", merchants.create, MERCHANTS, step_up=True, checks_first=True),
    Route("GET", "/merchants/{merchant:int}", merchants.show, VIEW),
    Route(
        "POST",
        "/merchants/{merchant:int}/status",
        merchants.decide,
        MERCHANTS,
        step_up=True,
        checks_first=True,
    ),
    Route("GET", DOSSIER, dossier.show, VIEW),
    Route("POST", DOSSIER + "/decide", dossier.decide, MERCHANTS, step_up=True),
    Route(
        "GET",
        DOSSIER + "/documents/{document:int}",
        dossier.send_document,
        MERCHANTS,
        is_page=False,
    ),
    Route(
        "GET",
        DOSSIER + "/documents/{document:int}/content",
        dossier.show_content,
        MERCHANTS,
        is_page=False,
    ),
    Route("POST", "/merchants/{merchant:int}/checks", merchants.check, MERCHANTS, step_up=True),
    Route(
        "POST",
        "/merchants/{merchant:int}/commission",
        merchants.set_commission,
        PLATFORM,
        step_up=True,
        checks_first=True,
    ),
    Route("POST", "/merchants/{merchant:int}/level", dossier.set_level, PLATFORM, step_up=True),
    Route("POST", "/merchants/{merchant:int}/currencies", merchants.switch_currency, MERCHANTS),
    Route(
        "POST",
        "/merchants/{merchant:int}/wallets/{environment:str}/{currency:str}/status",
        merchants.set_wallet,
        MERCHANTS,
        step_up=True,
    ),
    Route(
        "POST",
        "/merchants/{merchant:int}/keys/{environment:str}/{key:int}/revoke",
        keys.revoke,
        MERCHANTS,
        step_up=True,
    ),
    Route(
        "GET",
        "/merchants/{merchant:int}/wallets/{environment:str}/{currency:str}",
        wallets.show,
        VIEW,
    ),
    Route(
        "POST",
        "/merchants/{merchant:int}/wallets/{environment:str}/{currency:str}/adjust",
        wallets.adjust,
        OPERATIONS,
        step_up=True,
        checks_first=True,
    ),
    Route("GET", "/customers", customers.show_all, VIEW),
    Route("GET", "/customers/providers", customers.show_providers, VIEW),
    Route("GET", "/customers/{customer:str}", customers.show, VIEW),
    Route("GET", "/approvals", approvals.show, VIEW),
    # Only administrators may approve changes. The operations role may only request changes.
    Route("POST", "/approvals/{approval:int}/approve", approvals.approve, PLATFORM, step_up=True),
    Route(
        "POST",
        "/approvals/{approval:int}/refuse",
        approvals.refuse,
        OPERATIONS,
        step_up=True,
        checks_first=True,
    ),
    Route("GET", "/people", people.show, PEOPLE),
    Route("POST", "/people/add", people.add, PEOPLE, step_up=True, checks_first=True),
    Route("POST", "/people/{person:int}/role", people.change_role, PEOPLE, step_up=True),
    Route("POST", "/people/{person:int}/disable", people.disable, PEOPLE, step_up=True),
    Route("POST", "/people/{person:int}/enable", people.enable, PEOPLE, step_up=True),
    Route(
        "POST",
        "/people/{person:int}/second-factor-off",
        people.reset_second_factor,
        PEOPLE,
        step_up=True,
    ),
    Route("POST", "/people/{person:int}/sign-out", people.sign_out, PEOPLE, step_up=True),
    Route("POST", "/people/{person:int}/link", people.new_link, PEOPLE, step_up=True),
    *company_settings.routes(PEOPLE),
    Route("GET", "/audit", audit.show, VIEW),
    Route("POST", "/audit/verify", audit.verify, VIEW),
    Route("GET", "/payouts", payouts.show_all, VIEW),
    Route("GET", "/payouts/{payout:str}", payouts.show, VIEW),
    Route(
        "POST",
        "/payouts/{payout:str}/complete",
        payouts.complete,
        OPERATIONS,
        step_up=True,
        checks_first=True,
    ),
    Route(
        "POST",
        "/payouts/{payout:str}/reject",
        payouts.reject,
        OPERATIONS,
        step_up=True,
        checks_first=True,
    ),
    Route("POST", "/payouts/{payout:str}/requeue", payouts.requeue, OPERATIONS),
    Route("POST", "/payouts/{payout:str}/query", money_story.query, SUPPORT),
    Route("GET", "/refunds", refunds.show_all, VIEW),
    Route("POST", "/refunds/{refund:str}/query", money_story.query, SUPPORT),
    Route("GET", "/refunds/{refund:str}", refunds.show, VIEW),
    Route(
        "POST",
        "/refunds/{refund:str}/confirm",
        refunds.confirm,
        OPERATIONS,
        step_up=True,
        checks_first=True,
    ),
    Route(
        "POST",
        "/refunds/{refund:str}/reject",
        refunds.reject,
        OPERATIONS,
        step_up=True,
        checks_first=True,
    ),
    Route(
        "POST",
        "/transactions/{trx_id:str}/return",
        refunds.return_credit,
        OPERATIONS,
        step_up=True,
    ),
    Route("GET", "/transactions/{trx_id:str}/refund", refunds.show_new, OPERATIONS),
    Route("POST", "/transactions/{trx_id:str}/refund/review", refunds.review_new, OPERATIONS),
    Route(
        "POST",
        "/transactions/{trx_id:str}/refund",
        refunds.start,
        OPERATIONS,
        step_up=True,
        checks_first=True,
    ),
    Route("GET", "/invoices", invoices.show_all, VIEW),
    Route("POST", "/invoices/issue", invoices.issue, OPERATIONS),
    Route("GET", INVOICE, invoices.show, VIEW),
    Route("GET", INVOICE + "/invoice.pdf", invoices.send_pdf, VIEW, is_page=False),
    Route("GET", INVOICE + "/invoice.xml", invoices.send_xml, VIEW, is_page=False),
    Route("POST", INVOICE + "/reference", invoices.set_reference, OPERATIONS),
    Route("POST", INVOICE + "/cancel", invoices.cancel, PLATFORM, step_up=True, checks_first=True),
    Route("GET", "/tax-returns", tax_returns.show, VIEW),
    Route(
        *("POST", "/tax-returns/remit", tax_returns.remit, OPERATIONS),
        step_up=True,
        checks_first=True,
    ),
    Route(
        *("GET", "/tax-returns/returns.pdf", tax_returns.send_pdf, VIEW),
        is_page=False,
    ),
    Route("GET", "/disputes", disputes.show_all, VIEW),
    Route("GET", "/disputes/rates", disputes.show_rates, VIEW),
    Route("GET", "/disputes/new", disputes.show_new, OPERATIONS),
    Route("POST", "/disputes/new", disputes.record, OPERATIONS, step_up=True, checks_first=True),
    Route("GET", DISPUTE, disputes.show, VIEW),
    Route("GET", DISPUTE + "/answer.zip", disputes.send_answer, OPERATIONS, is_page=False),
    Route("GET", DISPUTE + "/files/{file:int}", disputes.send_file, OPERATIONS, is_page=False),
    Route(
        *("POST", DISPUTE + "/release", disputes.release, OPERATIONS),
        step_up=True,
        checks_first=True,
    ),
    Route(
        *("POST", DISPUTE + "/return", disputes.return_to_merchant, OPERATIONS),
        step_up=True,
        checks_first=True,
    ),
    Route("GET", "/cases", cases.show_all, VIEW),
    Route("GET", "/cases/{case:int}", cases.show, VIEW),
    Route("POST", "/cases/{case:int}/ask", cases.ask, OPERATIONS),
    Route("POST", "/cases/{case:int}/close", cases.close, OPERATIONS),
    Route(
        "POST",
        "/cases/{case:int}/resolve",
        cases.resolve,
        OPERATIONS,
        step_up=True,
        checks_first=True,
    ),
    Route("GET", "/jobs", jobs.show, VIEW),
    Route("POST", "/jobs/retry", jobs.retry, SUPPORT),
    Route("GET", "/mail", mail.show_all, VIEW),
    Route("GET", "/mail/{mail:int}", mail.show, VIEW),
    Route("GET", "/mail/{mail:int}/html", mail.show_html, VIEW, is_page=False),
    Route("POST", "/mail/{mail:int}/retry", mail.retry, SUPPORT),
    Route("GET", "/notifications", notifications.show_all, VIEW),
    Route("POST", "/notifications/redeliver-failed", notifications.resend_failed, SUPPORT),
    Route("GET", "/notifications/{notification:str}", notifications.show, VIEW),
    Route("POST", "/notifications/{notification:str}/redeliver", notifications.resend, SUPPORT),
    Route("GET", "/transactions", transactions.show_all, VIEW),
    Route("GET", "/transactions/{trx_id:str}", transactions.show, VIEW),
    Route("GET", "/shares/{share:str}", transactions.show_share, VIEW),
    Route("POST", "/transactions/{trx_id:str}/query", money_story.query, SUPPORT),
    Route("GET", "/requests/{request_id:str}", lookup.show_request, VIEW),
    Route("GET", "/providers", providers.show_all, VIEW),
    Route("POST", "/providers", providers.add, PLATFORM, step_up=True, checks_first=True),
    Route("GET", "/providers/{provider:str}", providers.show, VIEW),
    Route("GET", "/providers/{provider:str}/guide", providers.show_guide, VIEW),
    Route(
        "POST",
        "/providers/{provider:str}/credentials",
        providers.change,
        PLATFORM,
        step_up=True,
        checks_first=True,
    ),
    Route("POST", "/providers/{provider:str}/clear", providers.clear, PLATFORM, step_up=True),
    Route("POST", "/providers/{provider:str}/switches", providers.switch, PLATFORM, step_up=True),
    Route("POST", "/providers/{provider:str}/test", providers.try_out, PLATFORM),
    Route("POST", "/providers/{provider:str}/reconcile", providers.compare, OPERATIONS),
    Route(
        "POST",
        "/providers/{provider:str}/settle",
        providers.settle,
        MONEY_ALONE,
        step_up=True,
        checks_first=True,
    ),
    Route("GET", "/rails", rails.show_all, VIEW),
    Route("POST", "/rails/{provider:str}/drain", rails.drain, PLATFORM, step_up=True),
    Route("POST", "/rails/{provider:str}/undrain", rails.undrain, PLATFORM, step_up=True),
    Route("GET", "/methods", methods.show_all, VIEW),
    Route("GET", "/methods/{code:str}", methods.show, VIEW),
    Route("GET", "/methods/{code:str}/fee", methods.show_fee, VIEW, is_page=False),
    Route("POST", "/methods/{code:str}", methods.change, PLATFORM, step_up=True, checks_first=True),
    Route("GET", "/prices", plans.show_all, VIEW),
    Route("POST", "/prices", plans.create, PLATFORM),
    Route("POST", "/prices/default", plans.assign, PLATFORM, step_up=True, checks_first=True),
    Route("GET", PLAN, plans.show, VIEW),
    Route("GET", PLAN + "/preview", plans.show_preview, VIEW, is_page=False),
    Route(
        "POST", "/prices/plans/{plan:str}", plans.change, PLATFORM, step_up=True, checks_first=True
    ),
    Route("POST", PLAN + "/withdraw", plans.withdraw, PLATFORM, step_up=True, checks_first=True),
    Route("GET", OWN_PRICES, plans.show, VIEW),
    Route("GET", OWN_PRICES + "/preview", plans.show_preview, VIEW, is_page=False),
    Route("POST", OWN_PRICES, plans.change, PLATFORM, step_up=True, checks_first=True),
    Route(
        *("POST", OWN_PRICES + "/withdraw", plans.withdraw, PLATFORM),
        step_up=True,
        checks_first=True,
    ),
    Route("POST", OWN_PRICES + "/plan", plans.assign, PLATFORM, step_up=True, checks_first=True),
    Route("GET", "/taxes", taxes.show, VIEW),
    Route("POST", "/taxes", taxes.add, PLATFORM, step_up=True, checks_first=True),
    Route("GET", "/banks", banks.show_all, VIEW),
    Route("GET", "/banks/{provider:str}", banks.show, VIEW),
    Route("POST", "/banks/{provider:str}", banks.change, PLATFORM, step_up=True),
    Route("GET", "/ledger", ledger.show, VIEW),
    Route("GET", "/ledger/postings", ledger.show_postings, VIEW),
    Route("GET", "/ledger/proof", ledger.show_proof, VIEW, is_page=False),
    Route("POST", "/ledger/proof", ledger.check_invariants, OPERATIONS),
    Route("GET", "/reconciliation", reconciliation.show_all, VIEW),
    Route("GET", "/reconciliation/import", reconciliation.show_import, OPERATIONS),
    Route(
        "POST",
        "/reconciliation/import",
        reconciliation.import_file,
        OPERATIONS,
        body_bytes_max=reconciliation.FORM_BYTES_MAX,
    ),
    Route(
        "GET",
        "/reconciliation/{provider:str}/{currency:str}/{day:str}",
        reconciliation.show_day,
        VIEW,
    ),
    Route(
        "GET",
        "/reconciliation/{provider:str}/{currency:str}/{day:str}/sheet",
        reconciliation.send_sheet,
        VIEW,
        is_page=False,
    ),
    Route(
        "POST",
        "/reconciliation/{provider:str}/{currency:str}/{day:str}/sign-off",
        reconciliation.sign,
        MONEY_ALONE,
        step_up=True,
    ),
    Route("GET", "/margin", margin.show, VIEW),
    Route("GET", "/margin/losses", margin.show_losses, VIEW),
    Route("GET", "/margin/fees", trial.show_fees, VIEW),
    Route("GET", "/margin/try", trial.show_form, VIEW),
    Route("POST", "/margin/try", trial.run, VIEW),
    Route("GET", "/settings", settings.show_all, VIEW),
    Route("GET", "/settings/{setting:str}", settings.show, VIEW),
    Route(
        "POST",
        "/settings/{setting:str}",
        settings.change,
        PLATFORM,
        step_up=True,
        checks_first=True,
    ),
    Route("POST", "/settings/{setting:str}/reset", settings.reset, PLATFORM, step_up=True),
    Route("GET", "/system", system.show, VIEW),
    Route("GET", "/cells", cells.show, VIEW),
]


def build(services: Services) -> list[UrlHandler]:
    layout = Layout(
        *(Realm.CONSOLE, services, TEMPLATES, NAVIGATION, ACTIONS), open_groups=("Queues",)
    )
    authentication = Authentication(layout, needs_second_factor=not services.is_development)
    return [*authentication.handlers(ROUTES), sign_out_handler(layout)]
