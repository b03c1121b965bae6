"""What a move does with each table that has rows of merchants. A test finds forgotten tables."""

# Logical replication copies these tables and their changes, before and during the cut-over. Their
# primary keys contain the merchant, so that the row filter also applies to updates and deletions.
REPLICATED = (
    "move_marker",
    "charge",
    "delivery_attempt",
    "dossier_document",
    "dossier_event",
    "endpoint_delivery",
    "idempotency",
    "mail_choice",
    "notification",
    "operator_case",
    "payment",
    "payment_link",
    "payout",
    "payout_account",
    "payout_alone",
    "payout_attempt",
    "payout_batch",
    "payout_batch_row",
    "refund",
    "settlement",
    "settlement_account",
    "timeline",
    "wallet",
    "webhook",
)

# Rows of these tables are only inserted. A cell to which a merchant returns keeps the rows that it
# has, because its hash chain covers them. Maps the table to the column that numbers its rows.
APPENDED = {"posting": "id", "entry": "posting_id", "case_event": "id"}

# These tables have a few rows per merchant. They are copied before the cut-over, so that the second
# cell recognizes the merchant's keys, and again in the cut-over. Parents precede their children.
COPIED = (
    "merchant",
    "merchant_key",
    "credential",
    "api_key",
    "checkout_origins",
    "deleted_notifications",
    "dossier",
    "gateway_order",
    "merchant_branding",
    "payout_threshold",
    "settlement_plan",
    "webhook_endpoint",
    "endpoint_secret",
)

# Rows of these tables move: they are deleted in the first cell. A user gets a row in the table
# `person` of the second cell, because each cell numbers its users.
MOVED = ("job", "membership")

# Rows of these tables stay in the cell in which they were written.
STAYING = {
    "api_request": "the log of the requests that the cell answered",
    "approval": "a merchant with a waiting request is not moved",
    "audit": "the cell's own log, which is one hash chain",
    "clearing_movement": "compared with the statements that the cell imports",
    "invitation": "its link leads to the cell that sent it",
    "mail": "the cell sends the emails that it has written",
    "merchant_fence": "says which cell acts for the merchant",
    "merchant_move": "the steps of the move",
    "moved_job": "the jobs, until the second cell has them",
    "moved_merchant": "the cell of the merchant",
    "posting_chain": "the cell's own hash chain; arrived postings get links in the second cell",
    "session": "users sign in again, at the URL of the second cell",
    "statement_line": "a statement that the cell imported",
    "unmatched_transaction": "compared with the statements that the cell imports",
}

# No process of a cell can change the rows of a fenced merchant in these tables.
FENCED = (
    *(table for table in REPLICATED if table != "move_marker"),
    *APPENDED,
    *COPIED,
    *MOVED,
)


def key_of(table: str) -> str:
    """Returns the column with the merchant's number."""
    return "id" if table == "merchant" else "merchant_id"
