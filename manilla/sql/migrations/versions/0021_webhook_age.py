"""An index for finding old webhooks."""

from manilla.sql import script

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    # Rows are written in order of this column, so a BRIN index is enough.
    script.create_index("webhook_age", "webhook USING brin (received_at)")
