"""The reason for rejecting or disabling a merchant, shown to the merchant."""

from manilla.sql import script

revision = "0011"
down_revision = "0010"

SCHEMA = """
ALTER TABLE merchant ADD COLUMN status_reason text;
"""


def upgrade() -> None:
    script.run(SCHEMA)
