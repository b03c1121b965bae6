"""Manual payouts are found without reading the others."""

from manilla.sql import script

revision = "0014"
down_revision = "0013"

SCHEMA = """
-- By what never changes, so that a payout's status can change in place.
CREATE INDEX payout_by_hand ON payout (merchant_id, trx_id) WHERE provider IS NULL;
"""


def upgrade() -> None:
    script.run(SCHEMA)
