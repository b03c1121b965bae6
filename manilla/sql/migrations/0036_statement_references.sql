-- Finds the transaction of a statement's line by the provider's reference, and counts checks.

ALTER TABLE charge ADD provider_reference text;  -- saved when the charge is paid

-- The lines that `manilla provider check` made. Their trx_id is the reference of the check.
ALTER TABLE statement_day
      ADD checks bigint NOT NULL DEFAULT 0,
      ADD checks_minor bigint NOT NULL DEFAULT 0;

CREATE INDEX CONCURRENTLY charge_provider_reference ON charge (provider_reference)
    WHERE provider_reference IS NOT NULL;
CREATE INDEX CONCURRENTLY refund_provider_reference ON refund (provider_reference)
    WHERE provider_reference IS NOT NULL;
