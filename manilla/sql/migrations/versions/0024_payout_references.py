"""Indexes for finding a payout by its session id or by the provider's reference."""

from manilla.sql import script

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    # Both columns are written once or twice in a payout's life, so few updates lose HOT.
    for column in ("session_id", "provider_reference"):
        script.create_index(f"payout_{column}", f"payout ({column}) WHERE {column} IS NOT NULL")
