"""A job is claimed in place: its page has room for the claim, and no index hears of it."""

from manilla.sql import script

revision = "0015"
down_revision = "0014"

SCHEMA = """
-- What is done leaves at the front of the queue, where the next claim looks.
ALTER TABLE job SET (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
"""


def upgrade() -> None:
    script.run(SCHEMA)
