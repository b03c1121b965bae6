"""Finds the transaction of a statement's line by the provider's reference, and counts checks."""

from manilla.sql import script

revision = "0036"
down_revision = "0035"

SCHEMA = """
ALTER TABLE charge ADD provider_reference text;  -- saved when the charge is paid

-- The lines that `manilla provider check` made. Their trx_id is the reference of the check.
ALTER TABLE statement_day
      ADD checks bigint NOT NULL DEFAULT 0,
      ADD checks_minor bigint NOT NULL DEFAULT 0;
"""


def upgrade() -> None:
    script.run(SCHEMA)
    for table in ("charge", "refund"):
        script.create_index(
            f"{table}_provider_reference",
            f"{table} (provider_reference) WHERE provider_reference IS NOT NULL",
        )
