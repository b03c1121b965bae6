"""An index for finding manual payouts."""

from manilla.sql import script

revision = "0014"
down_revision = "0013"

SCHEMA = """
-- Has only columns that never change, so that changing a payout's status updates no index.
CREATE INDEX payout_by_hand ON payout (merchant_id, trx_id) WHERE provider IS NULL;
"""


def upgrade() -> None:
    script.run(SCHEMA)
