-- The origins of a merchant's pages that may show checkout in a frame.
CREATE TABLE checkout_origins (
    merchant_id bigint NOT NULL REFERENCES merchant,
    environment environment NOT NULL,
    origins     text[] NOT NULL,  -- such as https://shop.example
    PRIMARY KEY (merchant_id, environment)
);
