"""Finds the transaction of a statement's line by the provider's own reference, and marks checks."""

from manilla.sql import script

revision = "0035"
down_revision = "0034"

SCHEMA = """
ALTER TABLE charge ADD provider_reference text;  -- saved when the charge is paid

-- The transactions are searched instead, which have the reference even if it arrived late.
ALTER TABLE clearing_movement DROP provider_reference;

-- A check of the account made this line: `manilla provider check`.
ALTER TABLE statement_line
      DROP CONSTRAINT statement_line_matched_by_check,
      ADD CHECK (matched_by IN ('reference', 'provider_reference', 'amount', 'check'));
ALTER TABLE statement_day
      ADD checks bigint NOT NULL DEFAULT 0,  -- how many of the lines a check made
      ADD checks_minor bigint NOT NULL DEFAULT 0;
"""


def upgrade() -> None:
    script.run(SCHEMA)
    for table in ("charge", "refund"):
        script.create_index(
            f"{table}_provider_reference",
            f"{table} (provider_reference) WHERE provider_reference IS NOT NULL",
        )
