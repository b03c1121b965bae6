-- Writes postings, each of which must sum to zero. The caller holds the wallets' locks, has checked
-- the balances, and sets the planner options that `ledger_post_locked` explains.
CREATE OR REPLACE FUNCTION ledger_write(
    p_ids             bigint[],  -- null: the item is not posted
    p_merchant_ids    bigint[],
    p_trx_ids         text[],
    p_kinds           text[],
    p_environments    text[],
    p_currencies      text[],
    p_reasons         text[],
    p_wallets         tid[],     -- null: the item changes no wallet
    p_wallet_minors   bigint[],
    p_balances        bigint[],  -- the wallet's balance after the item
    p_first_accounts  text[],
    p_first_minors    bigint[],
    p_second_accounts text[],
    p_second_minors   bigint[]   -- null or 0: the item has no third entry
) RETURNS void
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
DECLARE
    updated bigint;
BEGIN
    -- Update by ctid, which cannot change while we hold the lock. A join by the key could be planned
    -- as a scan of all wallets.
    UPDATE wallet w
       SET balance_minor = w.balance_minor + moved.minor
      FROM (SELECT u.wallet, sum(u.minor)::bigint AS minor
              FROM unnest(p_wallets, p_wallet_minors) AS u (wallet, minor)
             WHERE u.wallet IS NOT NULL
             GROUP BY u.wallet) AS moved
     WHERE w.ctid = moved.wallet;
    GET DIAGNOSTICS updated = ROW_COUNT;
    IF updated <> (SELECT count(DISTINCT u.wallet) FROM unnest(p_wallets) AS u (wallet)) THEN
        -- A wallet was created after the caller took its locks, and was then changed. Retry.
        RAISE EXCEPTION 'A wallet changed without its lock.' USING ERRCODE = 'serialization_failure';
    END IF;

    INSERT INTO posting (merchant_id, id, environment, currency, kind, trx_id, reason)
           OVERRIDING SYSTEM VALUE
    SELECT u.*
      FROM unnest(p_merchant_ids, p_ids, p_environments, p_currencies, p_kinds, p_trx_ids,
                  p_reasons)
           AS u (merchant_id, id, environment, currency, kind, trx_id, reason)
     WHERE u.id IS NOT NULL;

    INSERT INTO entry
           (merchant_id, posting_id, line, environment, currency, account, amount_minor, balance_minor)
    SELECT u.merchant_id, u.id, line.line, u.environment, u.currency,
           line.account, line.minor, line.balance
      FROM unnest(p_merchant_ids, p_ids, p_environments, p_currencies, p_wallet_minors, p_balances,
                  p_first_accounts, p_first_minors, p_second_accounts, p_second_minors)
           AS u (merchant_id, id, environment, currency, wallet_minor, balance_minor,
                 first_account, first_minor, second_account, second_minor)
     CROSS JOIN LATERAL (VALUES
           (1, 'wallet', u.wallet_minor, u.balance_minor),
           (2, u.first_account, u.first_minor, NULL),
           (3, u.second_account, u.second_minor, NULL)) AS line (line, account, minor, balance)
     WHERE u.id IS NOT NULL AND line.minor <> 0;
END $$;
