-- An index for finding a payment by the id of its commission.

CREATE UNIQUE INDEX CONCURRENTLY payment_commission ON payment (merchant_id, commission_trx_id)
    WHERE commission_trx_id IS NOT NULL;
