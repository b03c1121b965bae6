"""Rails that an administrator has drained: they get no new payouts."""

from manilla.sql import script

revision = "0029"
down_revision = "0028"

SCHEMA = """
ALTER TABLE rail_state ADD drained_since timestamptz;  -- null: not drained
"""


def upgrade() -> None:
    script.run(SCHEMA)
