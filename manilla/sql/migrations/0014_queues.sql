-- An index for finding manual payouts.

-- Has only columns that never change, so that changing a payout's status updates no index.
CREATE INDEX payout_by_hand ON payout (merchant_id, trx_id) WHERE provider IS NULL;
