-- Flutterwave's refunds that have started. Earlier versions never queried them, and left them to an
-- administrator. A process of an earlier version would delete these jobs without a status query, so
-- they are due after such processes have stopped.
INSERT INTO job (merchant_id, kind, subject, due_at)
SELECT r.merchant_id, 'refund', r.trx_id, now() + interval '1 hour'
  FROM refund r
 WHERE r.status = 'pending' AND r.sent_at IS NOT NULL AND r.provider_reference IS NOT NULL
   AND (r.provider = 'flutterwave'
        OR r.provider IN (SELECT name FROM provider_account WHERE kind = 'flutterwave'))
    ON CONFLICT DO NOTHING;
