"""Lists the tables that grow with merchants and transactions, and those that stay small.

A migration must not block or rewrite a table that grows. Each table is in exactly one of the lists.
"""

GROWING = frozenset(
    # Transactions, and what is recorded about each transaction.
    {"payment", "charge", "payout", "payout_attempt", "refund", "settlement", "posting", "entry"}
    | {"timeline", "clearing_movement", "statement_line", "unmatched_transaction"}
    | {"operator_case", "case_event"}
    # Requests, messages and jobs.
    | {"api_request", "idempotency", "job", "webhook", "notification", "delivery_attempt"}
    | {"endpoint_delivery", "mail"}
    # Data that merchants create.
    | {"payment_link", "payout_account", "payout_alone", "payout_batch", "payout_batch_row"}
    | {"webhook_endpoint", "endpoint_secret", "dossier_document", "dossier_event"}
    # Tables with a few rows per merchant.
    | {"wallet", "membership", "mail_choice", "merchant_branding", "payout_threshold"}
    | {"settlement_account", "settlement_plan", "deleted_notifications"}
)

# The number of rows in these tables does not depend on the number of transactions.
SMALL = frozenset(
    {"alembic_version", "function_set", "change", "setting", "master_key_proof"}
    | {"merchant", "merchant_key", "credential", "api_key", "gateway_order", "rate_window"}
    | {"checkout_origins", "cell", "moved_merchant"}
    # Rows of merchants that are being moved, or were moved.
    | {"merchant_fence", "merchant_move", "moved_job", "move_marker"}
    | {"provider_account", "provider_bank", "provider_credentials", "method", "transfer_fee"}
    | {"rail_state", "rail_minute", "rail_bank_minute"}
    | {"person", "invitation", "password_reset", "session"}
    # These tables grow only with users' actions.
    | {"audit", "audit_head", "approval", "day_sign_off"}
    # This table has one row per merchant.
    | {"dossier"}
    # These tables have one row.
    | {"proof", "destination_epoch", "posting_chain_head", "clearing_total_head"}
    # This table has at most one row per 10 seconds, or per 10,000 postings.
    | {"posting_chain"}
    # These tables have one row per provider, currency and day.
    | {"statement_day", "reported_balance"}
    # These tables have one row per provider and currency.
    | {"clearing_difference", "clearing_total"}
    # This table has one row per kind of posting.
    | {"posting_kind"}
    # This table has one row per month.
    | {"archive_month"}
    # This table has one row per restore.
    | {"event_epoch"}
    # These tables belong to the demo shop.
    | {"shop_order", "shop_news"}
)
