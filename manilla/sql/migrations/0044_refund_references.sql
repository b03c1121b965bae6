-- Merchants' references of refunds, and an index on open payouts for the balance.

ALTER TABLE refund
      ADD ref_trx text,  -- the merchant's reference; null if the API did not create the refund
      ADD scenario text;  -- the outcome that the caller requested in the sandbox

CREATE UNIQUE INDEX CONCURRENTLY refund_reference ON refund (merchant_id, environment, ref_trx)
    WHERE ref_trx IS NOT NULL;

-- Only open payouts are in it, so it stays small. A payout's status changes once or twice, and
-- these updates mostly write other indexed columns too. Queries must write `status || ''` to use
-- it, so that the planner cannot choose it for statements that find a payout by its key.
CREATE INDEX CONCURRENTLY payout_open ON payout (merchant_id, environment, currency)
    WHERE (status || '') = 'pending';
