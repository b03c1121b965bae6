-- Payout files that are corrected in place, stopped, or approved by a second person.
--
-- Merchants can also set a threshold for the second person, and pay only to saved accounts.

ALTER TABLE payout_batch
    ADD kind text NOT NULL DEFAULT 'file' CHECK (kind IN ('file', 'single')),
    ADD revision integer NOT NULL DEFAULT 0,  -- raised by every change to the rows of a draft
    ADD ipn_url text NOT NULL DEFAULT '',
    ADD asked_by_id bigint,  -- the user who asked for a second person; may not approve
    ADD asked_by text,
    ADD asked_at timestamptz,
    ADD expires_at timestamptz,
    ADD ended_by text,  -- the user who stopped or refused it
    ADD stopped_at timestamptz,
    DROP CONSTRAINT payout_batch_status_check,
    DROP CONSTRAINT payout_batch_check,
    ADD CONSTRAINT payout_batch_status_check
        CHECK (status IN ('draft', 'asked', 'running', 'done', 'refused')) NOT VALID,
    ADD CONSTRAINT payout_batch_confirmed_check
        CHECK (status NOT IN ('running', 'done') OR confirmed_by IS NOT NULL) NOT VALID,
    ADD CONSTRAINT payout_batch_asked_check
        CHECK (status <> 'asked' OR (asked_by_id IS NOT NULL AND asked_by IS NOT NULL
                                     AND expires_at IS NOT NULL)) NOT VALID;

ALTER TABLE payout_batch_row
    ADD faults jsonb NOT NULL DEFAULT '{}',  -- errors by column
    ADD resolved_name text,  -- the account holder, as the bank has it
    ADD name_check text NOT NULL DEFAULT 'none'
        CHECK (name_check IN ('none', 'waiting', 'agrees', 'differs'));

-- Payouts by users above this amount, with the fee, need a second person; null: never.
CREATE TABLE payout_threshold (
    merchant_id  bigint NOT NULL,
    currency     currency NOT NULL,
    amount_minor bigint CHECK (amount_minor >= 0),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, currency)
);

-- Whether payouts go only to saved accounts.
ALTER TABLE merchant ADD accounts_locked boolean NOT NULL DEFAULT false;
