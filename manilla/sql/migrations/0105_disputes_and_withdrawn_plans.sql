-- What the merchant's plan charges for a dispute (`prices/price.py: TransactionPrice`). Null: the
-- merchant pays the provider's fee.
ALTER TABLE dispute ADD price jsonb;

-- The versions of plans that were withdrawn before they started.
CREATE TABLE price_withdrawal (
    merchant_id bigint NOT NULL,
    plan        text NOT NULL,
    version     integer NOT NULL,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, plan, version)
);
