-- The transactions that do not match yet, in a small table of their own.

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

CREATE INDEX CONCURRENTLY statement_line_nameless ON statement_line (provider) WHERE trx_id IS NULL;
CREATE INDEX CONCURRENTLY clearing_movement_reference ON clearing_movement
    (provider, provider_reference) WHERE provider_reference IS NOT NULL;
