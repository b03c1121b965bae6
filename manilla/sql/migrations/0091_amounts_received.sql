-- Repeated until no row changes.
-- If a payment in parts failed and was paid in full later, only the parts were counted as received.
UPDATE payment
   SET received_minor = (SELECT sum(c.paid_minor) FROM charge c
                          WHERE c.merchant_id = payment.merchant_id AND c.trx_id = payment.trx_id
                            AND c.status IN ('paid', 'part'))
 WHERE (merchant_id, trx_id) IN (
       SELECT p.merchant_id, p.trx_id FROM payment p
        WHERE p.status = 'success' AND p.received_minor < p.amount_minor
              + CASE p.commission_bearer WHEN 'customer' THEN p.commission_minor ELSE 0 END
        LIMIT 500);
