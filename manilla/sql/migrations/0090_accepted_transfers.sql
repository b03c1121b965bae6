-- Payouts that were posted since this time have the digest of their destination in their posting.
CREATE TABLE destination_epoch (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    since timestamptz NOT NULL
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON destination_epoch
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- What was accepted never changes. Only a failover changes a payout's provider, if it was chosen
-- automatically, and the reference of the name enquiry at the provider.
CREATE FUNCTION refuse_to_change_what_was_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'What was accepted never changes: % on % is refused.', TG_OP, TG_TABLE_NAME;
END $$;
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, trx_id, environment, currency, amount_minor, provider,
                     rail_bank_code, beneficiary
    ON payout FOR EACH ROW
    WHEN ((OLD.merchant_id, OLD.trx_id, OLD.environment, OLD.currency, OLD.amount_minor,
           OLD.beneficiary - 'name_enquiry_reference', OLD.rail_bank_code IS NULL,
           CASE WHEN OLD.rail_bank_code IS NULL THEN OLD.provider END)
          IS DISTINCT FROM
          (NEW.merchant_id, NEW.trx_id, NEW.environment, NEW.currency, NEW.amount_minor,
           NEW.beneficiary - 'name_enquiry_reference', NEW.rail_bank_code IS NULL,
           CASE WHEN NEW.rail_bank_code IS NULL THEN NEW.provider END))
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, trx_id, payment_trx_id, environment, currency, amount_minor,
                     reason, provider, charge_reference
    ON refund FOR EACH ROW
    WHEN ((OLD.merchant_id, OLD.trx_id, OLD.payment_trx_id, OLD.environment, OLD.currency,
           OLD.amount_minor, OLD.reason, OLD.provider, OLD.charge_reference)
          IS DISTINCT FROM
          (NEW.merchant_id, NEW.trx_id, NEW.payment_trx_id, NEW.environment, NEW.currency,
           NEW.amount_minor, NEW.reason, NEW.provider, NEW.charge_reference))
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, reference, trx_id, provider, currency
    ON charge FOR EACH ROW
    WHEN ((OLD.merchant_id, OLD.reference, OLD.trx_id, OLD.provider, OLD.currency)
          IS DISTINCT FROM
          (NEW.merchant_id, NEW.reference, NEW.trx_id, NEW.provider, NEW.currency))
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, id, method_code, beneficiary, account_name
    ON payout_account FOR EACH ROW
    WHEN ((OLD.merchant_id, OLD.id, OLD.method_code, OLD.beneficiary, OLD.account_name)
          IS DISTINCT FROM
          (NEW.merchant_id, NEW.id, NEW.method_code, NEW.beneficiary, NEW.account_name))
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, id, environment, currency, method_code, beneficiary, bank_name,
                     account_name, set_by, created_at
    ON settlement_account FOR EACH ROW
    WHEN ((OLD.merchant_id, OLD.id, OLD.environment, OLD.currency, OLD.method_code,
           OLD.beneficiary, OLD.bank_name, OLD.account_name, OLD.set_by, OLD.created_at)
          IS DISTINCT FROM
          (NEW.merchant_id, NEW.id, NEW.environment, NEW.currency, NEW.method_code,
           NEW.beneficiary, NEW.bank_name, NEW.account_name, NEW.set_by, NEW.created_at))
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
