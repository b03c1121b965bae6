"""Indexes for searching and listing transactions, and each user's choice of list columns."""

from manilla.sql import script

revision = "0039"
down_revision = "0038"

# A BRIN index with Bloom filters costs an insert almost nothing. It finds values that are nearly
# unique; a value that many rows have would read most of the table.
NEARLY_UNIQUE = (
    "USING brin ({} text_bloom_ops(n_distinct_per_range = 1500))"
    " WITH (pages_per_range = 64, autosummarize = on)"
)


def upgrade() -> None:
    script.run("ALTER TABLE person ADD list_columns jsonb NOT NULL DEFAULT '{}'")
    for table in ("payment", "payout", "refund"):
        # For lists of all merchants. Queries must name the collation to use it, so that the planner
        # cannot choose it for one merchant's rows, which it believes to be the whole table.
        script.create_index(f"{table}_time", f'{table} (trx_id COLLATE "C")')
    for table in ("payment", "payout"):
        script.create_index(
            f"{table}_reference", f"{table} " + NEARLY_UNIQUE.format("lower(ref_trx)")
        )
    script.create_index("charge_account", "charge " + NEARLY_UNIQUE.format("account_number"))
    script.create_index(
        "payment_email",
        "payment (lower(customer_email), merchant_id, trx_id) WHERE customer_email IS NOT NULL",
    )
    script.create_index(
        "payout_beneficiary",
        "payout (coalesce(beneficiary ->> 'account_number', beneficiary ->> 'Account Number'),"
        " merchant_id, trx_id)",
    )
