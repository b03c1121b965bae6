"""Why a provider declined a charge, used as the payment's error code when its link expires."""

from manilla.sql import script

revision = "0020"
down_revision = "0019"

SCHEMA = """
ALTER TABLE charge ADD error_code text;  -- null: not declined by the provider
"""


def upgrade() -> None:
    script.run(SCHEMA)
