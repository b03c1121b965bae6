-- What merchants were charged and what providers took, by day, so that a report does not read the
-- ledger. The worker adds the postings that the hash chain covers. A day is in Africa/Lagos.
CREATE TABLE margin_day (
    merchant_id  bigint NOT NULL,  -- 0: fees of no merchant, which an administrator posted
    day          date NOT NULL,
    environment  environment NOT NULL,
    currency     currency NOT NULL,
    kind         text NOT NULL,  -- payment or payout; empty: no transaction
    method_code  text NOT NULL,
    channel      text NOT NULL,  -- empty: the customer chose it on the provider's page, or a payout
    provider     text NOT NULL,  -- empty: no provider has paid it, or an administrator did
    transactions bigint NOT NULL,  -- credited payments and delivered payouts
    earned_minor bigint NOT NULL,  -- the entries in the accounts of commissions and payout fees
    paid_minor   bigint NOT NULL,  -- the entries in the accounts of providers' fees, as a cost
    passed_minor bigint NOT NULL,  -- fees of providers that merchants' wallets paid
    PRIMARY KEY (merchant_id, day, environment, currency, kind, method_code, channel, provider)
) WITH (fillfactor = 80);
CREATE INDEX margin_day_time ON margin_day (day);

-- The last posting that is part of the totals. Adding postings locks this row.
CREATE TABLE margin_head (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    last_id bigint NOT NULL
);
INSERT INTO margin_head (last_id) VALUES (0);
