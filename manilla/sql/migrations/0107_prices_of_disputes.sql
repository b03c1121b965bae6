-- What the merchant's plan charges for a dispute (`prices/price.py: TransactionPrice`). Null: the
-- merchant pays the provider's fee.
ALTER TABLE dispute ADD price jsonb;
