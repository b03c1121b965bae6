-- Accounts at providers, and the references by which providers and banks know a transfer.

-- Accounts besides those that have the name of their kind of provider.
CREATE TABLE provider_account (
    name       text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9]{1,30}$'),
    kind       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Our reference in the form that the provider accepts; saved before the first byte is sent. Null:
-- the transaction id.
ALTER TABLE payout ADD sent_reference text;
ALTER TABLE payout ADD session_id text;  -- of the interbank transfer, as the provider reports it
ALTER TABLE refund ADD provider_reference text;
