-- Rules for bank transfers of a wrong amount, and the account for money that goes back to customers.

ALTER DOMAIN ledger_account DROP CONSTRAINT ledger_account_check;
ALTER DOMAIN ledger_account ADD CONSTRAINT ledger_account_check CHECK (
    VALUE IN ('wallet', 'commission', 'payout_fee', 'in_flight', 'suspense', 'adjustment', 'bank',
              'customer_credit')
    OR VALUE ~ '^(clearing|provider_fee):[a-z0-9_]+$') NOT VALID;

ALTER TABLE merchant
    ADD overpaid text NOT NULL DEFAULT 'hold',
    ADD underpaid text NOT NULL DEFAULT 'hold';

-- `part`: paid in part. The rest was requested with another charge.
ALTER TABLE charge DROP CONSTRAINT charge_status_check;
ALTER TABLE charge ADD CONSTRAINT charge_status_check CHECK (
    status IN ('opening', 'open', 'paid', 'part', 'suspense', 'failed', 'expired')) NOT VALID;

-- The part of `paid_minor` that is in the account customer_credit now.
ALTER TABLE charge ADD credit_minor bigint NOT NULL DEFAULT 0;

-- What the customer has paid, if a rule for wrong amounts was applied. Null: the amount due, once
-- the payment is successful.
ALTER TABLE payment ADD received_minor bigint;

-- The part of a refund that is debited from customer_credit, not from the wallet.
ALTER TABLE refund ADD customer_credit_minor bigint NOT NULL DEFAULT 0;
