-- Indexes for searching and listing transactions, and each user's choice of list columns.

ALTER TABLE person ADD list_columns jsonb NOT NULL DEFAULT '{}';

-- For lists of all merchants. Queries must name the collation to use these indexes, so that the
-- planner cannot choose them for one merchant's rows, which it believes to be the whole table.
CREATE INDEX CONCURRENTLY payment_time ON payment (trx_id COLLATE "C");
CREATE INDEX CONCURRENTLY payout_time ON payout (trx_id COLLATE "C");
CREATE INDEX CONCURRENTLY refund_time ON refund (trx_id COLLATE "C");

-- A BRIN index with Bloom filters costs an insert almost nothing. It finds values that are nearly
-- unique; a value that many rows have would read most of the table.
CREATE INDEX CONCURRENTLY payment_reference ON payment
    USING brin (lower(ref_trx) text_bloom_ops(n_distinct_per_range = 1500))
    WITH (pages_per_range = 64, autosummarize = on);
CREATE INDEX CONCURRENTLY payout_reference ON payout
    USING brin (lower(ref_trx) text_bloom_ops(n_distinct_per_range = 1500))
    WITH (pages_per_range = 64, autosummarize = on);
CREATE INDEX CONCURRENTLY charge_account ON charge
    USING brin (account_number text_bloom_ops(n_distinct_per_range = 1500))
    WITH (pages_per_range = 64, autosummarize = on);

CREATE INDEX CONCURRENTLY payment_email ON payment (lower(customer_email), merchant_id, trx_id)
    WHERE customer_email IS NOT NULL;
CREATE INDEX CONCURRENTLY payout_beneficiary ON payout
    (coalesce(beneficiary ->> 'account_number', beneficiary ->> 'Account Number'), merchant_id,
     trx_id);
