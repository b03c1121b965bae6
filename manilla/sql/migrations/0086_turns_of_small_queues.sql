-- For fair scheduling, merchant by merchant, of the jobs of which a worker runs only a few at a time.
CREATE INDEX CONCURRENTLY job_turns_small ON job (kind, merchant_id, due_at)
    WHERE kind IN ('payout.bulk', 'payout.names', 'endpoint.resend', 'mail.receipt')
      AND parked_at IS NULL;
