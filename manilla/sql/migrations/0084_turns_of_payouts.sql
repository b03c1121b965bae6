-- For fair scheduling of payouts, merchant by merchant, while more are due than can be sent.
CREATE INDEX CONCURRENTLY job_turns_transfer ON job (merchant_id, due_at)
    WHERE kind = 'transfer' AND parked_at IS NULL;
