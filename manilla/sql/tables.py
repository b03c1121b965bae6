"""The tables of the database: one row per table, from which all lists of tables are derived.

A new table needs a migration and a row here. The application's role then gets its privileges, a
move to another cell handles its rows, and the archive takes them with their transaction.
"""

from enum import StrEnum, auto

import msgspec

# The privileges of the application's role: only what the code needs. During an upgrade the previous
# version has them too, so a privilege is revoked only one release after the last statement that
# needs it was removed.
READ = "SELECT"
APPEND = "SELECT, INSERT"
CHANGE = "SELECT, UPDATE"  # privileges on tables with a fixed set of rows
KEEP = "SELECT, INSERT, UPDATE"  # privileges on tables whose rows are never deleted
EXPIRE = "SELECT, INSERT, DELETE"  # privileges on tables whose rows are never updated
ALL = "SELECT, INSERT, UPDATE, DELETE"

# Whether a table grows with merchants and transactions. A migration must not block or rewrite it.
GROWS, SMALL = True, False


class Move(StrEnum):
    """What a move to another cell does with the rows of a merchant."""

    # Logical replication copies the rows and their changes, before and during the cut-over. The
    # primary key contains the merchant, so that the row filter also applies to updates and
    # deletions.
    REPLICATED = auto()
    # Rows are only inserted. A cell to which a merchant returns keeps the rows that it has, because
    # its hash chain covers them.
    APPENDED = auto()
    # A few rows per merchant. They are copied before the cut-over, so that the second cell
    # recognizes the merchant's keys, and again in the cut-over. Parents precede their children.
    COPIED = auto()
    # The rows are deleted in the first cell. A user gets a row in the table `person` of the second
    # cell, because each cell numbers its users.
    MOVED = auto()
    # The rows stay in the cell in which they were written.
    STAYS = auto()


REPLICATED, APPENDED, COPIED, MOVED, STAYS = Move


class Archived(msgspec.Struct, frozen=True):
    """A table whose rows are archived with their transaction."""

    column: str  # the id of the transaction or of one of its parts, or `posting_id`
    order: str


class Table(msgspec.Struct, frozen=True):
    name: str
    owner: str  # the package that writes to the table
    rights: str
    grows: bool
    move: Move | None = None  # None for a table without rows of merchants
    archived: Archived | None = None
    numbered_by: str = ""  # the column that numbers the rows of an APPENDED table
    # What was accepted never changes, so the application's role cannot update these columns.
    fixed: tuple[str, ...] = ()


TABLES = (
    Table("alembic_version", "sql", READ, SMALL),
    Table("function_set", "sql", READ, SMALL),
    Table("change", "kit", CHANGE, SMALL),
    Table("job", "kit", ALL, GROWS, MOVED),
    Table("rate_window", "kit", ALL, SMALL),
    Table("audit", "audit", APPEND, SMALL, STAYS),  # the cell's own log, which is one hash chain
    Table("audit_head", "audit", CHANGE, SMALL),
    Table("audit_target", "audit", ALL, SMALL),
    Table("provider_bank", "banks", ALL, SMALL),
    Table("master_key_proof", "platform", KEEP, SMALL),
    Table("setting", "platform", KEEP, SMALL),
    Table("mail", "mail", ALL, GROWS, STAYS),  # the cell sends the emails that it has written
    Table("mail_choice", "mail", KEEP, GROWS, REPLICATED),
    # The ledger, and what is recorded about each transaction.
    Table("posting", "ledger", APPEND, GROWS, APPENDED, Archived("trx_id", "id"), "id"),
    Table(
        *("entry", "ledger", APPEND, GROWS, APPENDED),
        *(Archived("posting_id", "posting_id, line"), "posting_id"),
    ),
    Table("posting_kind", "ledger", READ, SMALL),  # one row per kind of posting
    Table("timeline", "ledger", APPEND, GROWS, REPLICATED, Archived("trx_id", "at, number")),
    Table("idempotency", "ledger", EXPIRE, GROWS, REPLICATED),
    Table("clearing_total", "ledger", KEEP, SMALL),  # one row per provider and currency
    Table("clearing_total_head", "ledger", CHANGE, SMALL),
    # Merchants and their settings.
    Table("merchant", "merchants", KEEP, SMALL, COPIED),
    Table("merchant_key", "merchants", APPEND, SMALL, COPIED),
    Table("credential", "merchants", ALL, SMALL, COPIED),
    Table("api_key", "merchants", KEEP, SMALL, COPIED),
    # The log of the requests that the cell answered.
    Table("api_request", "merchants", EXPIRE, GROWS, STAYS),
    Table("checkout_origins", "merchants", KEEP, SMALL, COPIED),
    Table("gateway_order", "merchants", KEEP, SMALL, COPIED),
    Table("merchant_branding", "merchants", KEEP, GROWS, COPIED),
    Table("wallet", "merchants", KEEP, GROWS, REPLICATED),
    # Questions that an administrator must decide.
    Table("operator_case", "cases", KEEP, GROWS, REPLICATED),
    Table("case_event", "cases", APPEND, GROWS, APPENDED, numbered_by="id"),
    # Providers.
    Table("provider_account", "providers", APPEND, SMALL),
    Table("provider_credentials", "providers", ALL, SMALL),
    Table("rail_minute", "providers", ALL, SMALL),
    Table("rail_state", "providers", KEEP, SMALL),
    Table("reported_balance", "providers", KEEP, SMALL),  # one row per provider, currency and day
    Table("webhook", "providers", ALL, GROWS, REPLICATED),
    # Methods and routing.
    Table("method", "methods", KEEP, SMALL),
    Table("rail_bank_minute", "routing", ALL, SMALL),
    Table("transfer_fee", "routing", KEEP, SMALL),
    # Price plans and taxes. What a transaction cost is stored with it, so no row ever changes.
    Table("price_version", "prices", APPEND, SMALL, COPIED),
    Table("price_withdrawal", "prices", APPEND, SMALL, COPIED),
    Table("merchant_plan", "prices", APPEND, SMALL, COPIED),
    Table("tax_rule", "prices", APPEND, SMALL),
    # Notifications.
    Table("notification", "notify", KEEP, GROWS, REPLICATED, Archived("trx_id", "id")),
    Table("deleted_notifications", "notify", READ, GROWS, COPIED),
    Table("delivery_attempt", "notify", EXPIRE, GROWS, REPLICATED),
    Table("webhook_endpoint", "notify", ALL, GROWS, COPIED),
    Table("endpoint_secret", "notify", ALL, GROWS, COPIED),
    Table("endpoint_delivery", "notify", ALL, GROWS, REPLICATED),
    # Users.
    Table("person", "people", KEEP, SMALL),
    Table("membership", "people", ALL, GROWS, MOVED),
    Table("invitation", "people", ALL, SMALL, STAYS),  # its link leads to the cell that sent it
    Table("password_reset", "people", ALL, SMALL),
    # Users sign in again, at the URL of the second cell.
    Table("session", "people", ALL, SMALL, STAYS),
    # The provider must know the URL of the second cell, so the merchant sets it up again there.
    Table("sign_in_provider", "people", ALL, SMALL, STAYS),
    Table("company_identity", "people", ALL, SMALL, STAYS),
    # Payments, payouts and refunds.
    Table("payment", "payments", KEEP, GROWS, REPLICATED, Archived("trx_id", "trx_id")),
    Table(
        *("charge", "payments", KEEP, GROWS, REPLICATED, Archived("trx_id", "number")),
        fixed=("merchant_id", "reference", "trx_id", "method_code", "provider", "currency"),
    ),
    Table("payment_link", "payments", KEEP, GROWS, REPLICATED),
    # The previous version updates `beneficiary`, so only the trigger `as_accepted` refuses changes
    # of that column.
    Table(
        *("payout", "payouts", KEEP, GROWS, REPLICATED, Archived("trx_id", "trx_id")),
        fixed=(
            *("merchant_id", "trx_id", "environment", "ref_trx", "currency", "amount_minor"),
            *("fee_minor", "method_id", "method_code", "method_name", "price", "tax_minor"),
            "purpose",
        ),
    ),
    Table("payout_attempt", "payouts", KEEP, GROWS, REPLICATED, Archived("trx_id", "number")),
    Table("payout_alone", "payouts", ALL, GROWS, REPLICATED),
    Table("payout_threshold", "payouts", KEEP, GROWS, COPIED),
    Table("destination_epoch", "payouts", READ, SMALL),
    Table(
        *("payout_account", "beneficiaries", KEEP, GROWS, REPLICATED),
        fixed=("merchant_id", "id", "method_code", "beneficiary", "account_name"),
    ),
    Table("payout_batch", "bulk", KEEP, GROWS, REPLICATED),
    Table("payout_batch_row", "bulk", ALL, GROWS, REPLICATED),
    Table(
        *("refund", "refunds", KEEP, GROWS, REPLICATED, Archived("trx_id", "trx_id")),
        fixed=(
            *("merchant_id", "trx_id", "payment_trx_id", "environment", "currency"),
            *("amount_minor", "reason", "provider", "charge_reference", "commission_minor"),
            "customer_credit_minor",
        ),
    ),
    # The merchant changes the evidence until it is submitted, and can remove files. A trigger
    # refuses most changes of `provider_reference`.
    Table(
        *("dispute", "disputes", KEEP, GROWS, REPLICATED, Archived("trx_id", "trx_id")),
        fixed=(
            *("merchant_id", "trx_id", "payment_trx_id", "environment", "currency"),
            *("charge_reference", "provider", "price"),
        ),
    ),
    Table("dispute_file", "disputes", ALL, GROWS, REPLICATED, Archived("trx_id", "number")),
    # Customers of merchants.
    Table(
        *("customer", "customers", KEEP, GROWS, REPLICATED),
        fixed=("merchant_id", "id", "environment", "reference", "created_at"),
    ),
    Table("customer_account", "customers", KEEP, GROWS, REPLICATED),
    Table("account_transfer", "customers", APPEND, GROWS, REPLICATED),
    # A card's row is deleted if its customer does not want to save it any more.
    Table(
        *("saved_way", "saved_ways", ALL, GROWS, REPLICATED),
        fixed=("merchant_id", "id", "environment", "kind", "currency", "payment_trx_id"),
    ),
    # Shares of payments.
    Table(
        *("split", "splits", KEEP, GROWS, REPLICATED, Archived("trx_id", "trx_id")),
        fixed=(
            *("merchant_id", "trx_id", "owner_id", "payment_trx_id", "environment", "currency"),
            *("amount_minor", "ref_trx", "hold_until"),
        ),
    ),
    Table(
        *("split_rule", "splits", KEEP, GROWS, REPLICATED),
        fixed=("merchant_id", "id", "version", "environment", "name", "terms"),
    ),
    Table("split_partner", "splits", KEEP, GROWS, REPLICATED),
    # Settlements.
    Table("settlement", "settlements", KEEP, GROWS, REPLICATED),
    Table(
        *("settlement_account", "settlements", KEEP, GROWS, REPLICATED),
        fixed=(
            *("merchant_id", "id", "environment", "currency", "method_code", "beneficiary"),
            *("bank_name", "account_name", "set_by", "created_at", "effective_at"),
        ),
    ),
    Table("settlement_plan", "settlements", KEEP, GROWS, COPIED),
    # Fee invoices. A cell has its own series of numbers, which its prefix names.
    Table("invoice_series", "invoices", KEEP, SMALL),
    Table("invoice_month", "invoices", APPEND, SMALL),
    Table("invoice_recipient", "invoices", KEEP, SMALL, COPIED),
    # Only the authority's reference and code are added later.
    Table(
        *("fee_invoice", "invoices", KEEP, GROWS, REPLICATED),
        fixed=(
            *("merchant_id", "number", "prefix", "serial", "month", "currency", "revision"),
            *("amount_minor", "lines", "supplier", "customer", "corrects", "reason", "issued_by"),
            "issued_at",
        ),
    ),
    # Reconciliation, which compares with the statements that the cell imports.
    Table(
        *("clearing_movement", "reconciliation", APPEND, GROWS, STAYS),
        Archived("posting_id", "posting_id"),
    ),
    Table("clearing_difference", "reconciliation", KEEP, SMALL),
    Table("day_sign_off", "reconciliation", APPEND, SMALL),
    Table("statement_day", "reconciliation", KEEP, SMALL),  # one row per provider, currency and day
    Table("statement_line", "reconciliation", KEEP, GROWS, STAYS),
    Table("unmatched_transaction", "reconciliation", EXPIRE, GROWS, STAYS),
    # What was charged and what providers took. Each cell counts the postings that it has numbered.
    Table("margin_day", "margin", KEEP, GROWS, STAYS),
    Table("margin_head", "margin", CHANGE, SMALL),
    # Proofs. The chain has at most one row per 10 seconds, or per 10,000 postings. It is the cell's
    # own: postings that arrive with a merchant get links in the second cell.
    Table("posting_chain", "proofs", APPEND, SMALL, STAYS),
    Table("posting_chain_head", "proofs", CHANGE, SMALL),
    Table("proof", "proofs", CHANGE, SMALL),
    Table("archive_month", "proofs", CHANGE, SMALL),
    # A merchant with a waiting request is not moved.
    Table("approval", "approvals", KEEP, SMALL, STAYS),
    # Cells, and the merchants that are being moved, or were moved.
    Table("cell", "cells", ALL, SMALL),
    Table("event_epoch", "cells", APPEND, SMALL),  # one row per restore
    Table("move_marker", "cells", READ, SMALL, REPLICATED),
    Table("merchant_fence", "cells", READ, SMALL, STAYS),  # says which cell acts for the merchant
    Table("merchant_move", "cells", READ, SMALL, STAYS),
    Table("moved_job", "cells", READ, SMALL, STAYS),  # the jobs, until the second cell has them
    Table("moved_merchant", "cells", EXPIRE, SMALL, STAYS),
    # Business verification.
    Table("dossier", "compliance", KEEP, SMALL, COPIED),  # one row per merchant
    Table("dossier_document", "compliance", ALL, GROWS, REPLICATED),
    Table("dossier_event", "compliance", APPEND, GROWS, REPLICATED),
    # The demo shop.
    Table("shop_order", "simulator", EXPIRE, SMALL),
    Table("shop_news", "simulator", EXPIRE, SMALL),
)

GROWING = frozenset(table.name for table in TABLES if table.grows)
