-- Permanent accounts of customers, and the transfers into them.

-- The merchant's reference of the customer who paid, the account that received the transfer, and
-- who sent it: name, bank, account number and session id.
ALTER TABLE payment ADD customer_reference text;
ALTER TABLE payment ADD account_id text;
ALTER TABLE payment ADD payer jsonb;
-- The provider's reference of a charge that it created itself. Null: the provider has ours.
ALTER TABLE charge ADD their_reference text;

CREATE TABLE customer_account (
    merchant_id        bigint NOT NULL,
    id                 text NOT NULL,  -- also our reference at the provider
    environment        environment NOT NULL,
    customer_id        text NOT NULL,
    method_code        text NOT NULL,
    provider           text NOT NULL,
    currency           currency NOT NULL,
    status             text NOT NULL DEFAULT 'pending'
                       CHECK (status IN ('pending', 'active', 'failed', 'closed')),
    ipn_url            text NOT NULL DEFAULT '',
    -- The provider knows the customer by this address. It belongs to this account alone, because
    -- two merchants can have customers with the same address.
    email              text NOT NULL,
    bank_name          text,
    bank_code          text,
    account_number     text,
    account_name       text,
    provider_reference text,  -- the provider's id of the account
    holder             text,  -- the provider's id of the customer
    error_code         text,
    error              text,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    sent_at            timestamptz,  -- when it was first requested from the provider
    activated_at       timestamptz,
    closing_at         timestamptz,  -- when its end was requested
    closed_at          timestamptz,
    PRIMARY KEY (merchant_id, id),
    CHECK (status <> 'active' OR (account_number IS NOT NULL AND activated_at IS NOT NULL)),
    CHECK ((status = 'closed') = (closed_at IS NOT NULL)),
    CHECK ((status = 'failed') = (error_code IS NOT NULL))
) WITH (fillfactor = 85);
CREATE INDEX customer_account_customer ON customer_account (merchant_id, customer_id, id);
CREATE INDEX customer_account_number ON customer_account (account_number, provider)
    WHERE account_number IS NOT NULL;

-- The transfers that were credited or held, each once. Its rows are never archived, because a
-- provider can report old transfers again.
CREATE TABLE account_transfer (
    merchant_id bigint NOT NULL,
    provider    text NOT NULL,
    reference   text NOT NULL,  -- the provider's
    account_id  text NOT NULL,
    trx_id      text NOT NULL,  -- of the payment
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, provider, reference)
);
CREATE INDEX account_transfer_reference ON account_transfer (reference, provider);
CREATE INDEX account_transfer_account ON account_transfer (merchant_id, account_id);

CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, id, environment, reference, created_at
    ON customer FOR EACH ROW
    WHEN (OLD.merchant_id IS DISTINCT FROM NEW.merchant_id
          OR OLD.id IS DISTINCT FROM NEW.id
          OR OLD.environment IS DISTINCT FROM NEW.environment
          OR OLD.reference IS DISTINCT FROM NEW.reference
          OR OLD.created_at IS DISTINCT FROM NEW.created_at)
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();

CREATE INDEX CONCURRENTLY payment_customer ON payment (merchant_id, customer_reference, trx_id)
    WHERE customer_reference IS NOT NULL;
CREATE INDEX CONCURRENTLY payment_session ON payment ((payer->>'session_id'), merchant_id)
    WHERE payer IS NOT NULL;
