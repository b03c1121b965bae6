-- Indexes for the lists of cases, audit entries, emails and bulk files of any length.

CREATE INDEX CONCURRENTLY operator_case_number ON operator_case (id);
CREATE INDEX CONCURRENTLY operator_case_transaction ON operator_case (trx_id)
    WHERE trx_id IS NOT NULL;
CREATE INDEX CONCURRENTLY operator_case_reference ON operator_case (reference);
CREATE INDEX CONCURRENTLY audit_actor ON audit (actor_name, id);
CREATE INDEX CONCURRENTLY mail_recipient ON mail (lower(recipient), id);
CREATE INDEX CONCURRENTLY payout_batch_age ON payout_batch
    (merchant_id, environment, created_at, id);
