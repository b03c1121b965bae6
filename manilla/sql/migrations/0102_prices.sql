-- Price plans and taxes.

-- The versions of plans. In `own`, merchants with exceptions have lines that precede those of their
-- plan. A plan's version in force is the last, by start and number, that has started.
CREATE TABLE price_version (
    merchant_id bigint NOT NULL,  -- 0: any merchant can have the plan
    plan        text NOT NULL,
    version     integer NOT NULL CHECK (version > 0),
    starts_at   timestamptz NOT NULL,
    content     jsonb NOT NULL,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, plan, version)
);

-- Which plan a merchant has since when.
CREATE TABLE merchant_plan (
    merchant_id bigint NOT NULL,  -- 0: merchants without a row
    number      integer NOT NULL,
    plan        text,  -- null: none
    starts_at   timestamptz NOT NULL,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, number)
);

CREATE TABLE tax_rule (
    number     integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name       text NOT NULL,
    since      timestamptz NOT NULL,
    content    jsonb NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO change (topic) VALUES ('prices');

-- Why a transaction costs what it costs (`prices/price.py: TransactionPrice`), and the taxes on top of
-- its fee that the wallet pays. The customer pays `customer_tax_minor`.
ALTER TABLE payment ADD price jsonb;
ALTER TABLE payment ADD tax_minor bigint NOT NULL DEFAULT 0;
ALTER TABLE payment ADD customer_tax_minor bigint NOT NULL DEFAULT 0;
ALTER TABLE payment ADD CONSTRAINT payment_taxes CHECK (
    tax_minor >= 0 AND customer_tax_minor >= 0) NOT VALID;
ALTER TABLE payment DROP CONSTRAINT payment_disputed;
ALTER TABLE payment ADD CONSTRAINT payment_disputed CHECK (
    disputed_minor >= 0
    AND refunded_minor + disputed_minor <= amount_minor + commission_minor + customer_tax_minor)
    NOT VALID;

ALTER TABLE payout ADD price jsonb;
ALTER TABLE payout ADD tax_minor bigint NOT NULL DEFAULT 0;
ALTER TABLE payout ADD purpose text;
ALTER TABLE payout ADD CONSTRAINT payout_price CHECK (
    tax_minor >= 0 AND purpose IN ('salary', 'own_account')) NOT VALID;

ALTER TABLE payout_batch_row ADD tax_minor bigint NOT NULL DEFAULT 0;
ALTER TABLE payout_batch_row ADD purpose text;
