"""Why a merchant was rejected or disabled, for the merchant to read."""

from manilla.sql import script

revision = "0011"
down_revision = "0010"

SCHEMA = """
ALTER TABLE merchant ADD COLUMN status_reason text;
"""


def upgrade() -> None:
    script.run(SCHEMA)
