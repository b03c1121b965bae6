-- Finds what waits for a second person, which the menu of every page counts.

CREATE INDEX CONCURRENTLY payout_batch_asked ON payout_batch (merchant_id, environment)
    WHERE status = 'asked';
