"""Routes and navigation of the dashboard."""

from importlib import resources
from pathlib import Path

from manilla.dashboard import (
    accounts,
    batches,
    bulk,
    configuration,
    customers,
    disputes,
    home,
    invoices,
    notifications,
    payment_links,
    payments,
    payouts,
    protection,
    refunds,
    search,
    settlement_account,
    settlements,
    sign_up,
    splits,
    team,
    wallets,
)
from manilla.dashboard.business import profile, verification
from manilla.dashboard.developers import credentials, explorer, notification_test, requests, shops
from manilla.dashboard.webhooks import pages as webhooks
from manilla.people.roles import Permission, Realm
from manilla.services import Services
from manilla.web import account, money_story
from manilla.web.authentication import Authentication
from manilla.web.company import settings as company_settings
from manilla.web.company.pages import sign_out_handler
from manilla.web.layout import Layout, NavigationItem
from manilla.web.receipts import pages as receipts
from manilla.web.routes import SIGNED_IN, Route
from manilla.web.serving.router import UrlHandler

TEMPLATES = Path(str(resources.files("manilla.dashboard"))) / "templates"

NAVIGATION = {
    "": [
        NavigationItem("Home", "~", "home", Permission.VIEW),
        NavigationItem("Payments", "~/payments", "arrow-down-left", Permission.VIEW),
        NavigationItem("Payouts", "~/payouts", "arrow-up-right", Permission.VIEW),
        NavigationItem("Refunds", "~/refunds", "receipt-refund", Permission.VIEW),
        NavigationItem("Disputes", "~/disputes", "arrow-back-up", Permission.VIEW),
        NavigationItem("Customers", "~/customers", "users", Permission.VIEW),
        NavigationItem("Shares", "~/shares", "users", Permission.VIEW),
        NavigationItem("Payment links", "~/links", "qrcode", Permission.VIEW),
        NavigationItem("Balance", "~/wallets", "wallet", Permission.VIEW),
        NavigationItem("Settlements", "~/settlements", "coins", Permission.VIEW),
    ],
    "Developers": [
        NavigationItem("Credentials", "~/credentials", "key", Permission.USE_CREDENTIALS),
        NavigationItem("Notifications", "~/notifications", "bell", Permission.VIEW),
        NavigationItem("Webhooks", "~/webhooks", "plug-connected", Permission.VIEW),
        NavigationItem("API requests", "~/requests", "api", Permission.USE_CREDENTIALS),
        NavigationItem("API explorer", "~/explorer", "player-play", Permission.USE_CREDENTIALS),
        NavigationItem("Embedded checkout", "~/embedded-checkout", "app-window", Permission.VIEW),
        NavigationItem("API reference", "/docs", "book", Permission.VIEW, is_outside=True),
    ],
    "Business": [
        NavigationItem("Checkout", "~/checkout", "credit-card", Permission.VIEW),
        NavigationItem("Payment Gateway Controls", "~/gateways", "adjustments", Permission.VIEW),
        NavigationItem("API Commission", "~/commission", "percentage", Permission.VIEW),
        NavigationItem("My prices", "~/prices", "coins", Permission.VIEW),
        NavigationItem("Saved accounts", "~/accounts", "building-bank", Permission.VIEW),
        NavigationItem("Payout protection", "~/protection", "shield-check", Permission.MOVE_MONEY),
        NavigationItem("Team", "/team", "users", Permission.VIEW),
        NavigationItem("Company sign-in", "/company-sign-in", "key", Permission.MANAGE_TEAM),
        NavigationItem("Verification", "/verification", "id", Permission.VIEW),
        NavigationItem("Invoices", "/invoices", "file-invoice", Permission.VIEW),
        NavigationItem("Business profile", "/profile", "building-store", Permission.VIEW),
    ],
}

ACTIONS = [
    NavigationItem("Send a payout", "~/payouts/new", "arrow-up-right", Permission.MOVE_MONEY),
    NavigationItem("Upload a payout file", "~/payouts/bulk", "upload", Permission.MOVE_MONEY),
    NavigationItem("Create a payment link", "~/links/new", "qrcode", Permission.MOVE_MONEY),
    NavigationItem("Save an account", "~/accounts/new", "building-bank", Permission.MOVE_MONEY),
    NavigationItem("Invite a colleague", "/team", "users", Permission.MANAGE_TEAM),
]

VIEW, MOVE_MONEY, CONFIGURE = Permission.VIEW, Permission.MOVE_MONEY, Permission.CONFIGURE
MANAGE_TEAM, PROFILE = Permission.MANAGE_TEAM, Permission.PROFILE
USE_CREDENTIALS = Permission.USE_CREDENTIALS

ENV = "/{environment:str}"
API_KEYS = ENV + "/credentials/keys"
SHOPS = ENV + "/credentials/shops"
CHECKOUT = ENV + "/checkout"
PAYMENT = ENV + "/payments/{trx_id:str}"
LINKS = ENV + "/links"
CUSTOMERS = ENV + "/customers"
CUSTOMER = CUSTOMERS + "/{customer:str}"
REFUNDS = ENV + "/refunds"
REFUND = REFUNDS + "/{refund:str}"
DISPUTES = ENV + "/disputes"
DISPUTE = DISPUTES + "/{dispute:str}"
SHARES = ENV + "/shares"
PAYOUTS = ENV + "/payouts"
PAYOUT = PAYOUTS + "/{payout:str}"
BULK = PAYOUTS + "/bulk"
SETTLEMENT_ACCOUNT = ENV + "/settlement-account"
SETTLEMENTS = ENV + "/settlements"
INVOICE = "/invoices/{invoice:str}"
BATCH = BULK + "/{batch:str}"
SECTION = "/verification/sections/{section:str}"
DOCUMENTS = "/verification/documents"
DOCUMENT = DOCUMENTS + "/{document:int}"
PROTECTION_CHANGE = "/protection/changes/{approval:int}"
NOTIFICATION = ENV + "/notifications/{notification:str}"
WEBHOOK = ENV + "/webhooks/{endpoint:str}"
DELIVERY = WEBHOOK + "/deliveries/{notification:str}"

ROUTES = [
    *account.ROUTES,
    Route("GET", "/sign-up", sign_up.show, None),
    Route("POST", "/sign-up", sign_up.submit, None),
    Route("GET", "/", home.redirect_to_environment, SIGNED_IN),
    Route("GET", ENV, home.show, VIEW),
    Route("GET", ENV + "/search", search.show, VIEW),
    Route("GET", ENV + "/search/results", search.show_results, VIEW, is_page=False),
    Route("GET", ENV + "/credentials", credentials.show, USE_CREDENTIALS),
    Route(
        *("GET", ENV + "/credentials/docs.json", credentials.send_for_docs, USE_CREDENTIALS),
        is_page=False,
    ),
    Route(
        "POST",
        ENV + "/credentials/rotate",
        credentials.rotate,
        USE_CREDENTIALS,
        needs_in_production=MOVE_MONEY,
        step_up=True,
    ),
    Route(
        "GET",
        API_KEYS + "/new",
        credentials.show_new_key,
        USE_CREDENTIALS,
        needs_in_production=MOVE_MONEY,
    ),
    Route(
        "POST",
        API_KEYS,
        credentials.create_key,
        USE_CREDENTIALS,
        needs_in_production=MOVE_MONEY,
        step_up=True,
        checks_first=True,
    ),
    Route(
        "GET",
        SHOPS + "/new",
        shops.show_form,
        USE_CREDENTIALS,
        needs_in_production=MOVE_MONEY,
    ),
    Route(
        "POST",
        SHOPS,
        shops.connect,
        USE_CREDENTIALS,
        needs_in_production=MOVE_MONEY,
        step_up=True,
        checks_first=True,
    ),
    Route(
        "POST",
        API_KEYS + "/{key:int}/revoke",
        credentials.revoke_key,
        USE_CREDENTIALS,
        needs_in_production=MOVE_MONEY,
    ),
    Route("GET", ENV + "/gateways", configuration.show_gateways, VIEW),
    Route("POST", ENV + "/gateways", configuration.choose_gateways, CONFIGURE),
    Route("POST", ENV + "/gateways/move", configuration.move_gateway, CONFIGURE),
    Route("GET", CHECKOUT, configuration.show_checkout, VIEW),
    Route("GET", CHECKOUT + "/preview", configuration.show_preview, VIEW, is_page=False),
    Route(
        "POST",
        CHECKOUT + "/branding",
        configuration.change_branding,
        PROFILE,
        body_bytes_max=configuration.UPLOAD_BYTES_MAX,
    ),
    Route("POST", CHECKOUT + "/receipts", configuration.choose_receipts, CONFIGURE),
    Route(
        "POST",
        CHECKOUT + "/wrong-amounts",
        configuration.choose_wrong_amounts,
        MOVE_MONEY,
        step_up=True,
        in_both_environments=True,
    ),
    Route("GET", ENV + "/commission", configuration.show_commission, VIEW),
    Route("GET", ENV + "/prices", configuration.show_prices, VIEW),
    Route("GET", ENV + "/commission/example", configuration.show_example, VIEW, is_page=False),
    Route(
        "POST",
        ENV + "/commission",
        configuration.choose_bearer,
        CONFIGURE,
        step_up=True,
        in_both_environments=True,
    ),
    Route("GET", ENV + "/embedded-checkout", configuration.show_origins, VIEW),
    Route(
        "POST",
        ENV + "/embedded-checkout",
        configuration.change_origins,
        CONFIGURE,
        step_up=True,
        checks_first=True,
    ),
    Route("GET", ENV + "/payments", payments.show_all, VIEW),
    Route("GET", PAYMENT, payments.show, VIEW),
    Route("POST", PAYMENT + "/query", money_story.query, MOVE_MONEY),
    Route("GET", REFUNDS, refunds.show_all, VIEW),
    Route("GET", REFUND, refunds.show, VIEW),
    Route("POST", REFUND + "/query", money_story.query, MOVE_MONEY),
    Route("GET", DISPUTES, disputes.show_all, VIEW),
    Route("GET", DISPUTE, disputes.show, VIEW),
    Route("GET", DISPUTE + "/files/{file:int}", disputes.send_file, VIEW, is_page=False),
    Route(
        "POST",
        DISPUTE + "/evidence",
        disputes.contest,
        MOVE_MONEY,
        body_bytes_max=disputes.UPLOAD_BYTES_MAX,
    ),
    Route("POST", DISPUTE + "/accept/review", disputes.review_acceptance, MOVE_MONEY),
    Route(
        *("POST", DISPUTE + "/accept", disputes.accept, MOVE_MONEY), step_up=True, checks_first=True
    ),
    Route("GET", SHARES, splits.show_all, VIEW),
    Route("GET", SHARES + "/{share:str}", splits.show, VIEW),
    Route(
        *("POST", SHARES + "/invite", splits.invite, MOVE_MONEY),
        step_up=True,
        in_both_environments=True,
    ),
    Route(
        *("POST", SHARES + "/sub-accounts", splits.create_sub_account, MOVE_MONEY),
        step_up=True,
        in_both_environments=True,
    ),
    Route(
        *("POST", SHARES + "/partners/{partner:int}", splits.answer, MOVE_MONEY),
        in_both_environments=True,
    ),
    Route("POST", PAYMENT + "/shares/release", splits.release, MOVE_MONEY, step_up=True),
    Route("GET", PAYMENT + "/refund", payments.show_refund, MOVE_MONEY),
    Route("POST", PAYMENT + "/refund/review", payments.review_refund, MOVE_MONEY),
    Route(
        "POST", PAYMENT + "/refund", payments.refund, MOVE_MONEY, step_up=True, checks_first=True
    ),
    Route("GET", PAYMENT + "/receipt", receipts.show_payment, VIEW),
    Route("GET", PAYMENT + "/receipt.pdf", receipts.send_payment, VIEW, is_page=False),
    Route("GET", CUSTOMERS, customers.show_all, VIEW),
    Route("GET", CUSTOMERS + "/new", customers.show_new, MOVE_MONEY),
    Route("POST", CUSTOMERS, customers.create, MOVE_MONEY),
    Route("GET", CUSTOMER, customers.show, VIEW),
    Route("GET", CUSTOMER + "/export", customers.export, VIEW, is_page=False),
    Route("POST", CUSTOMER + "/enable", customers.enable, MOVE_MONEY),
    Route("POST", CUSTOMER + "/disable", customers.disable, MOVE_MONEY),
    Route("POST", CUSTOMER + "/erase", customers.erase, MOVE_MONEY),
    Route("POST", CUSTOMER + "/accounts", customers.request_account, MOVE_MONEY),
    Route("POST", CUSTOMER + "/accounts/{account:str}/close", customers.close_account, MOVE_MONEY),
    Route("POST", CUSTOMER + "/ways/{way:str}/revoke", customers.revoke_way, MOVE_MONEY),
    Route("POST", CUSTOMER + "/test-transfer", customers.send_test_transfer, MOVE_MONEY),
    Route("GET", LINKS, payment_links.show_all, VIEW),
    Route("GET", LINKS + "/new", payment_links.show_new, MOVE_MONEY),
    Route("POST", LINKS, payment_links.create, MOVE_MONEY),
    Route("GET", LINKS + "/{link:str}", payment_links.show, VIEW),
    Route("GET", LINKS + "/{link:str}/edit", payment_links.show_edit, MOVE_MONEY),
    Route("POST", LINKS + "/{link:str}/edit", payment_links.edit, MOVE_MONEY),
    Route("POST", LINKS + "/{link:str}/enable", payment_links.enable, MOVE_MONEY),
    Route("POST", LINKS + "/{link:str}/disable", payment_links.disable, MOVE_MONEY),
    Route("GET", PAYOUTS, payouts.show_all, VIEW),
    Route("GET", PAYOUTS + "/new", payouts.show_new, MOVE_MONEY),
    Route("GET", PAYOUTS + "/new/name", payouts.show_name, MOVE_MONEY, is_page=False),
    Route("POST", PAYOUTS + "/new", payouts.review, MOVE_MONEY),
    Route("POST", PAYOUTS, payouts.pay, MOVE_MONEY, step_up=True, checks_first=True),
    Route("GET", PAYOUT, payouts.show, VIEW),
    Route("POST", PAYOUT + "/query", money_story.query, MOVE_MONEY),
    Route("GET", PAYOUT + "/receipt", receipts.show_payout, VIEW),
    Route("GET", PAYOUT + "/receipt.pdf", receipts.send_payout, VIEW, is_page=False),
    Route("GET", BULK, bulk.show_all, MOVE_MONEY),
    Route("GET", BULK + "/template/{method:int}", bulk.send_template, MOVE_MONEY, is_page=False),
    Route("GET", BULK + "/banks/{method:int}", bulk.send_banks, MOVE_MONEY, is_page=False),
    Route("POST", BULK, bulk.upload, MOVE_MONEY, body_bytes_max=bulk.UPLOAD_BYTES_MAX),
    Route("GET", BATCH, batches.show, MOVE_MONEY),
    Route("GET", BATCH + "/progress", batches.show_progress, MOVE_MONEY, is_page=False),
    Route("GET", BATCH + "/not-paid", bulk.send_unpaid, MOVE_MONEY, is_page=False),
    Route("POST", BATCH + "/rows", batches.correct, MOVE_MONEY),
    Route("POST", BATCH + "/zeros", batches.add_zeros, MOVE_MONEY),
    Route("POST", BATCH + "/confirm", batches.confirm, MOVE_MONEY, step_up=True),
    Route("POST", BATCH + "/approve", batches.approve, MOVE_MONEY, step_up=True, checks_first=True),
    Route("POST", BATCH + "/refuse", batches.refuse, MOVE_MONEY),
    Route("POST", BATCH + "/stop", batches.stop, MOVE_MONEY),
    Route("GET", ENV + "/accounts", accounts.show_all, VIEW),
    Route("GET", ENV + "/accounts/new", accounts.show_new, MOVE_MONEY),
    # Sandbox and production share the saved accounts.
    Route(
        "POST",
        ENV + "/accounts",
        accounts.add,
        MOVE_MONEY,
        step_up=True,
        checks_first=True,
        in_both_environments=True,
    ),
    Route("POST", "/accounts/{account:int}/remove", accounts.remove, MOVE_MONEY),
    Route("GET", SETTLEMENT_ACCOUNT, settlement_account.show, VIEW),
    Route("GET", SETTLEMENT_ACCOUNT + "/new", settlement_account.show_new, MOVE_MONEY),
    Route("POST", SETTLEMENT_ACCOUNT + "/new", settlement_account.review, MOVE_MONEY),
    Route(
        "POST",
        SETTLEMENT_ACCOUNT,
        settlement_account.choose,
        MOVE_MONEY,
        step_up=True,
        checks_first=True,
    ),
    Route("POST", SETTLEMENT_ACCOUNT + "/cancel", settlement_account.cancel, MOVE_MONEY),
    Route(
        "POST",
        SETTLEMENT_ACCOUNT + "/{account:int}/approve",
        settlement_account.approve,
        MOVE_MONEY,
        step_up=True,
        checks_first=True,
    ),
    Route("GET", ENV + "/protection", protection.show, MOVE_MONEY),
    *(
        Route(
            "POST",
            ENV + "/protection/" + path,
            handler,
            MOVE_MONEY,
            step_up=True,
            checks_first=True,
            in_both_environments=True,
        )
        for path, handler in (
            ("threshold", protection.set_threshold),
            ("lock", protection.set_lock),
        )
    ),
    # Payout protection applies to both environments, so these paths contain no environment.
    Route(
        "POST",
        PROTECTION_CHANGE + "/approve",
        protection.approve,
        MOVE_MONEY,
        step_up=True,
        checks_first=True,
    ),
    Route("POST", PROTECTION_CHANGE + "/refuse", protection.refuse, MOVE_MONEY),
    Route("GET", "/invoices", invoices.show_all, VIEW),
    Route("POST", "/invoices/recipient", invoices.set_recipient, MOVE_MONEY),
    Route("GET", INVOICE, invoices.show, VIEW),
    Route("GET", INVOICE + "/invoice.pdf", invoices.send_pdf, VIEW, is_page=False),
    Route("GET", INVOICE + "/invoice.xml", invoices.send_xml, VIEW, is_page=False),
    Route("GET", SETTLEMENTS, settlements.show, VIEW),
    Route("GET", SETTLEMENTS + "/new", settlements.show_new, MOVE_MONEY),
    Route("POST", SETTLEMENTS, settlements.settle_now, MOVE_MONEY, step_up=True, checks_first=True),
    Route(
        "POST",
        SETTLEMENTS + "/plan",
        settlements.set_plan,
        MOVE_MONEY,
        step_up=True,
        checks_first=True,
    ),
    Route("GET", SETTLEMENTS + "/{settlement:str}", settlements.statement, VIEW),
    Route("GET", ENV + "/wallets", wallets.show, VIEW),
    Route("GET", ENV + "/wallets/{currency:str}", wallets.show_statement, VIEW),
    Route("POST", ENV + "/wallets/{currency:str}/top-up", wallets.top_up, MOVE_MONEY),
    Route(
        "POST",
        ENV + "/wallets/{currency:str}/accept-disputes-below",
        disputes.accept_below,
        MOVE_MONEY,
        step_up=True,
        checks_first=True,
    ),
    Route("GET", ENV + "/notifications", notifications.show, VIEW),
    Route(
        "POST", ENV + "/notifications/redeliver-failed", notifications.redeliver_failed, CONFIGURE
    ),
    Route("GET", ENV + "/notifications/test", notification_test.show, USE_CREDENTIALS),
    Route("POST", ENV + "/notifications/test", notification_test.send, USE_CREDENTIALS),
    Route("GET", NOTIFICATION, notifications.show_one, VIEW),
    Route("POST", NOTIFICATION + "/redeliver", notifications.redeliver, CONFIGURE),
    Route("GET", ENV + "/webhooks", webhooks.show, VIEW),
    Route("POST", ENV + "/webhooks", webhooks.create, CONFIGURE, step_up=True, checks_first=True),
    Route("GET", WEBHOOK, webhooks.show_one, VIEW),
    Route("POST", WEBHOOK, webhooks.change, CONFIGURE, step_up=True, checks_first=True),
    Route("POST", WEBHOOK + "/status", webhooks.set_status, CONFIGURE),
    Route("POST", WEBHOOK + "/delete", webhooks.delete, CONFIGURE, step_up=True),
    Route("POST", WEBHOOK + "/rotate", webhooks.rotate, CONFIGURE, step_up=True),
    Route("POST", WEBHOOK + "/test", webhooks.test, CONFIGURE),
    Route("POST", WEBHOOK + "/resend", webhooks.resend, CONFIGURE),
    Route("GET", DELIVERY, webhooks.show_delivery, VIEW),
    Route("POST", DELIVERY + "/resend", webhooks.resend_one, CONFIGURE),
    Route("GET", ENV + "/requests", requests.show, USE_CREDENTIALS),
    Route("GET", ENV + "/explorer", explorer.show, USE_CREDENTIALS),
    Route("POST", ENV + "/explorer", explorer.send, USE_CREDENTIALS),
    Route("GET", "/team", team.show, VIEW),
    Route("POST", "/team/invite", team.invite, MANAGE_TEAM, step_up=True, checks_first=True),
    Route("POST", "/team/invitations/{invitation:int}/withdraw", team.withdraw, MANAGE_TEAM),
    Route("POST", "/team/{person:int}/role", team.change_role, MANAGE_TEAM, step_up=True),
    Route("POST", "/team/{person:int}/remove", team.remove, MANAGE_TEAM, step_up=True),
    *company_settings.routes(MANAGE_TEAM),
    Route("GET", "/profile", profile.show, VIEW),
    Route("POST", "/profile", profile.change, PROFILE),
    Route("POST", "/profile/bvn", profile.set_bvn, PROFILE, step_up=True, checks_first=True),
    Route("GET", "/verification", verification.show, VIEW),
    Route("POST", "/verification/submit", verification.submit, PROFILE),
    Route("GET", SECTION, verification.show_section, PROFILE),
    Route("POST", SECTION, verification.save, PROFILE),
    Route("GET", DOCUMENTS, verification.show_documents, PROFILE),
    Route(
        "POST",
        DOCUMENTS,
        verification.upload,
        PROFILE,
        body_bytes_max=verification.UPLOAD_BYTES_MAX,
    ),
    Route("GET", DOCUMENT, verification.send_document, PROFILE, is_page=False),
    Route("POST", DOCUMENT + "/remove", verification.remove_document, PROFILE),
]


def build(services: Services) -> list[UrlHandler]:
    layout = Layout(
        *(Realm.DASHBOARD, services, TEMPLATES, NAVIGATION, ACTIONS),
        counts=protection.count_waiting,
        open_groups=("Developers",),
    )
    return [
        *Authentication(layout).handlers(ROUTES),
        receipts.verification(layout),
        sign_out_handler(layout),
    ]
