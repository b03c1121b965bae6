-- Which account a settlement goes to, and whether limits left part of the balance in the wallet.

ALTER TABLE settlement
    ADD account_id bigint,  -- null until the payout is created, unless a user has confirmed it
    ADD is_partial boolean NOT NULL DEFAULT false;
