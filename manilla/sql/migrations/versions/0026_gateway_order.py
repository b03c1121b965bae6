"""The order in which a merchant prefers its gateways."""

from manilla.sql import script

revision = "0026"
down_revision = "0025"

SCHEMA = """
CREATE TABLE gateway_order (
    merchant_id bigint NOT NULL REFERENCES merchant,
    environment environment NOT NULL,
    codes       text[] NOT NULL,  -- of deposit methods, first the preferred one
    PRIMARY KEY (merchant_id, environment)
);
"""


def upgrade() -> None:
    script.run(SCHEMA)
