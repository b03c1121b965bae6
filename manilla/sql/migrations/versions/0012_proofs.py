"""When the books were last proved, and with what result."""

from manilla.sql import script

revision = "0012"
down_revision = "0011"

SCHEMA = """
-- One row. Who sets `began_at` is the one worker that proves; who asks for it sets `asked_at`.
CREATE TABLE proof (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    asked_at timestamptz,
    began_at timestamptz,
    ended_at timestamptz,
    findings jsonb NOT NULL DEFAULT '[]',  -- of the last that came to its end
    problem  text                          -- why it did not
);
INSERT INTO proof DEFAULT VALUES;
"""


def upgrade() -> None:
    script.run(SCHEMA)
