-- The emails with customers' receipts stay in the cell that has written them, as all other emails do.
-- While a merchant leaves, a worker can also remove the job of an email that it has sent.

CREATE OR REPLACE FUNCTION merchant_fence() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    of_merchant bigint;
    fence text;
BEGIN
    IF TG_TABLE_NAME = 'merchant' THEN
        of_merchant := NEW.id;
    ELSIF TG_OP = 'DELETE' THEN
        of_merchant := OLD.merchant_id;
    ELSE
        of_merchant := NEW.merchant_id;
    END IF;
    SELECT f.state INTO fence FROM merchant_fence f WHERE f.merchant_id = of_merchant FOR SHARE;
    IF fence IS NULL OR fence IN ('copying', 'closing')
       OR current_setting('manilla.moves', true) = of_merchant::text THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    END IF;
    IF TG_TABLE_NAME = 'job' THEN
        IF coalesce(NEW.kind, OLD.kind) IN ('mail', 'mail.receipt', 'person.reset') THEN
            RETURN coalesce(NEW, OLD);  -- emails stay in their cell
        END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN
        -- Old rows expire in the copy for auditors as they do elsewhere.
        RETURN CASE WHEN fence IN ('left', 'partial') THEN OLD END;
    ELSIF TG_TABLE_NAME = 'job' THEN
        RETURN NULL;
    ELSIF TG_OP = 'UPDATE' AND TG_TABLE_NAME IN (
          'payout', 'payment', 'charge', 'refund', 'notification', 'endpoint_delivery', 'webhook')
    THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'Merchant % lives in another cell, or is being moved: % on % is rejected.',
          of_merchant, TG_OP, TG_TABLE_NAME USING ERRCODE = 'object_not_in_prerequisite_state';
END $$;

-- An earlier move took the jobs of the receipts that were waiting.
INSERT INTO job (merchant_id, kind, subject, due_at)
SELECT m.merchant_id, 'mail.receipt', m.id::text, now() FROM mail m
 WHERE m.merchant_id IN (SELECT merchant_id FROM merchant_move)
   AND m.kind = 'receipt' AND m.state = 'waiting'
    ON CONFLICT DO NOTHING;
