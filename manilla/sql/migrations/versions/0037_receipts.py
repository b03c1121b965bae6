"""Receipts that customers get by email."""

from manilla.sql import script

revision = "0037"
down_revision = "0036"

SCHEMA = """
-- Whether the merchant's customers get a receipt.
ALTER TABLE merchant ADD sends_receipts boolean NOT NULL DEFAULT false;
"""


def upgrade() -> None:
    script.run(SCHEMA)
