"""The account holder's name at each rail that a payout has left."""

from manilla.sql import script

revision = "0032"
down_revision = "0031"

SCHEMA = """
-- As the provider resolved it; of a dead attempt.
ALTER TABLE payout_attempt ADD account_name text;
"""


def upgrade() -> None:
    script.run(SCHEMA)
