-- Payouts that were posted since this time have the digest of their destination in their posting.
CREATE TABLE destination_epoch (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    since timestamptz NOT NULL
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON destination_epoch
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- What was accepted never changes. Only a failover changes a payout's provider, if it was chosen
-- automatically, and the reference of the name enquiry at the provider. If the triggers compared two
-- rows, their definitions would change when `pg_restore` restores the database.
CREATE FUNCTION refuse_to_change_what_was_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'What was accepted never changes: % on % is refused.', TG_OP, TG_TABLE_NAME;
END $$;
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, trx_id, environment, currency, amount_minor, provider,
                     rail_bank_code, beneficiary
    ON payout FOR EACH ROW
    WHEN (OLD.merchant_id IS DISTINCT FROM NEW.merchant_id
          OR OLD.trx_id IS DISTINCT FROM NEW.trx_id
          OR OLD.environment IS DISTINCT FROM NEW.environment
          OR OLD.currency IS DISTINCT FROM NEW.currency
          OR OLD.amount_minor IS DISTINCT FROM NEW.amount_minor
          OR (OLD.beneficiary - 'name_enquiry_reference')
             IS DISTINCT FROM (NEW.beneficiary - 'name_enquiry_reference')
          OR (OLD.rail_bank_code IS NULL) IS DISTINCT FROM (NEW.rail_bank_code IS NULL)
          OR CASE WHEN OLD.rail_bank_code IS NULL THEN OLD.provider END
             IS DISTINCT FROM CASE WHEN NEW.rail_bank_code IS NULL THEN NEW.provider END)
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, trx_id, payment_trx_id, environment, currency, amount_minor,
                     reason, provider, charge_reference
    ON refund FOR EACH ROW
    WHEN (OLD.merchant_id IS DISTINCT FROM NEW.merchant_id
          OR OLD.trx_id IS DISTINCT FROM NEW.trx_id
          OR OLD.payment_trx_id IS DISTINCT FROM NEW.payment_trx_id
          OR OLD.environment IS DISTINCT FROM NEW.environment
          OR OLD.currency IS DISTINCT FROM NEW.currency
          OR OLD.amount_minor IS DISTINCT FROM NEW.amount_minor
          OR OLD.reason IS DISTINCT FROM NEW.reason
          OR OLD.provider IS DISTINCT FROM NEW.provider
          OR OLD.charge_reference IS DISTINCT FROM NEW.charge_reference)
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, reference, trx_id, provider, currency
    ON charge FOR EACH ROW
    WHEN (OLD.merchant_id IS DISTINCT FROM NEW.merchant_id
          OR OLD.reference IS DISTINCT FROM NEW.reference
          OR OLD.trx_id IS DISTINCT FROM NEW.trx_id
          OR OLD.provider IS DISTINCT FROM NEW.provider
          OR OLD.currency IS DISTINCT FROM NEW.currency)
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, id, method_code, beneficiary, account_name
    ON payout_account FOR EACH ROW
    WHEN (OLD.merchant_id IS DISTINCT FROM NEW.merchant_id
          OR OLD.id IS DISTINCT FROM NEW.id
          OR OLD.method_code IS DISTINCT FROM NEW.method_code
          OR OLD.beneficiary IS DISTINCT FROM NEW.beneficiary
          OR OLD.account_name IS DISTINCT FROM NEW.account_name)
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, id, environment, currency, method_code, beneficiary, bank_name,
                     account_name, set_by, created_at
    ON settlement_account FOR EACH ROW
    WHEN (OLD.merchant_id IS DISTINCT FROM NEW.merchant_id
          OR OLD.id IS DISTINCT FROM NEW.id
          OR OLD.environment IS DISTINCT FROM NEW.environment
          OR OLD.currency IS DISTINCT FROM NEW.currency
          OR OLD.method_code IS DISTINCT FROM NEW.method_code
          OR OLD.beneficiary IS DISTINCT FROM NEW.beneficiary
          OR OLD.bank_name IS DISTINCT FROM NEW.bank_name
          OR OLD.account_name IS DISTINCT FROM NEW.account_name
          OR OLD.set_by IS DISTINCT FROM NEW.set_by
          OR OLD.created_at IS DISTINCT FROM NEW.created_at)
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
