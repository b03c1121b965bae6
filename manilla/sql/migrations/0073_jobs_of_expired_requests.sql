-- Releases up to 0.8.0 could delete the job that ends a payout file or settlement which nobody has
-- approved in time, if the worker's clock was behind the database's clock. Add the missing jobs.
INSERT INTO job (merchant_id, kind, subject, due_at)
SELECT merchant_id, 'payout.bulk', id, greatest(expires_at, now())
  FROM payout_batch WHERE status = 'asked'
    ON CONFLICT DO NOTHING;
