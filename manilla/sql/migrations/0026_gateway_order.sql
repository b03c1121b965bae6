-- The order in which a merchant prefers its gateways.

CREATE TABLE gateway_order (
    merchant_id bigint NOT NULL REFERENCES merchant,
    environment environment NOT NULL,
    codes       text[] NOT NULL,  -- of deposit methods, first the preferred one
    PRIMARY KEY (merchant_id, environment)
);
