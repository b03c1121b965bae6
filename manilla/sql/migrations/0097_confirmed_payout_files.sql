-- What is paid to whom in a payout file never changes after a user has confirmed the file.
CREATE FUNCTION refuse_to_change_what_was_confirmed() RETURNS trigger LANGUAGE plpgsql
SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM payout_batch b
                WHERE b.merchant_id = OLD.merchant_id AND b.id = OLD.batch_id
                  AND b.status <> 'draft') THEN
        RAISE EXCEPTION 'The rows of a confirmed payout file never change.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, batch_id, number, amount_minor, bank_code, account_number, ref_trx
    ON payout_batch_row FOR EACH ROW
    WHEN (OLD.merchant_id IS DISTINCT FROM NEW.merchant_id
          OR OLD.batch_id IS DISTINCT FROM NEW.batch_id
          OR OLD.number IS DISTINCT FROM NEW.number
          OR OLD.amount_minor IS DISTINCT FROM NEW.amount_minor
          OR OLD.bank_code IS DISTINCT FROM NEW.bank_code
          OR OLD.account_number IS DISTINCT FROM NEW.account_number
          OR OLD.ref_trx IS DISTINCT FROM NEW.ref_trx)
    EXECUTE FUNCTION refuse_to_change_what_was_confirmed();
