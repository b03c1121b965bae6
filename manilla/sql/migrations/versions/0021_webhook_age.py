"""Old webhooks are found without reading the others."""

from manilla.sql import script

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    # They are written in this order, so the bounds of its blocks are enough.
    script.create_index("webhook_age", "webhook USING brin (received_at)")
