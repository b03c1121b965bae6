"""The transactions that do not match yet, in a small table of their own."""

from manilla.sql import script

revision = "0031"
down_revision = "0030"

SCHEMA = """
-- The transactions whose lines and movements were not compared yet, or differ. A line without a
-- transaction is unmatched too; its trx_id is null.
CREATE TABLE unmatched_transaction (
    merchant_id bigint NOT NULL DEFAULT 0,  -- 0: a statement belongs to no merchant
    provider    text NOT NULL,
    trx_id      text NOT NULL,
    PRIMARY KEY (merchant_id, provider, trx_id)
);
INSERT INTO unmatched_transaction (provider, trx_id)
SELECT provider, trx_id FROM clearing_movement WHERE NOT is_matched
 UNION
SELECT provider, trx_id FROM statement_line WHERE NOT is_matched AND trx_id IS NOT NULL;

-- With the columns go their indexes, which made each match write to every index of the row.
ALTER TABLE clearing_movement DROP is_matched;
ALTER TABLE statement_line DROP is_matched;
"""


def upgrade() -> None:
    script.run(SCHEMA)
    script.create_index("statement_line_nameless", "statement_line (provider) WHERE trx_id IS NULL")
    script.create_index(
        "clearing_movement_reference",
        "clearing_movement (provider, provider_reference) WHERE provider_reference IS NOT NULL",
    )
