-- Saved ways to pay: cards and mandates that a merchant can charge without the customer.

CREATE TABLE saved_way (
    merchant_id        bigint NOT NULL,
    id                 text NOT NULL,
    environment        environment NOT NULL,
    customer_reference text NOT NULL,
    kind               text NOT NULL CHECK (kind IN ('card', 'mandate')),
    status             text NOT NULL CHECK (status IN (
                       'pending', 'active', 'suspended', 'revoked', 'expired', 'unusable',
                       'failed')),
    provider           text NOT NULL,  -- the account that has the token
    currency           currency NOT NULL,
    label              text NOT NULL,
    email              text NOT NULL,  -- with which the provider saved it
    token_sealed       bytea,  -- null: none yet, or deleted at the provider
    consent_text       text NOT NULL,
    consented_at       timestamptz,  -- null: the customer has not confirmed the mandate
    payment_trx_id     text,  -- the payment that saved the card
    expires_on         date,
    amount_minor       bigint CHECK (amount_minor > 0),  -- the limit of a mandate's debits
    action_url         text,
    ended_by           text CHECK (ended_by IN ('customer', 'merchant', 'erasure', 'provider')),
    reason             text NOT NULL DEFAULT '',
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, id),
    UNIQUE (merchant_id, payment_trx_id),
    CHECK (status <> 'active' OR token_sealed IS NOT NULL OR environment = 'sandbox')
) WITH (fillfactor = 85);
CREATE INDEX saved_way_customer ON saved_way (merchant_id, environment, customer_reference);

CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, id, environment, kind, currency, payment_trx_id
    ON saved_way FOR EACH ROW
    WHEN (OLD.merchant_id IS DISTINCT FROM NEW.merchant_id
          OR OLD.id IS DISTINCT FROM NEW.id
          OR OLD.environment IS DISTINCT FROM NEW.environment
          OR OLD.kind IS DISTINCT FROM NEW.kind
          OR OLD.currency IS DISTINCT FROM NEW.currency
          OR OLD.payment_trx_id IS DISTINCT FROM NEW.payment_trx_id)
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();

-- Whether checkout offers to save the card, and the way that was saved or charged, as JSON.
ALTER TABLE payment ADD saves_way boolean NOT NULL DEFAULT false;
ALTER TABLE payment ADD saved_way text;

-- The way that the charge saves, or charges again.
ALTER TABLE charge ADD way_id text;
CREATE INDEX CONCURRENTLY charge_way ON charge (merchant_id, way_id) WHERE way_id IS NOT NULL;
