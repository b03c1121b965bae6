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
    p_wallets         tid[],     -- null: the item changes no wallet, or none of them does
    p_wallet_minors   bigint[],
    p_balances        bigint[],  -- the wallet's balance after the item
    p_line_items      integer[], -- the number of the line's item: its index in the arrays above
    p_line_accounts   text[],
    p_line_minors     bigint[]   -- 0: the line is not written
) RETURNS void
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
DECLARE
    updated bigint;
BEGIN
    IF p_wallets IS NOT NULL THEN
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
    SELECT u.merchant_id, u.id, 1, u.environment, u.currency, 'wallet', u.minor, u.balance
      FROM unnest(p_merchant_ids, p_ids, p_environments, p_currencies, p_wallet_minors, p_balances)
           AS u (merchant_id, id, environment, currency, minor, balance)
     WHERE u.id IS NOT NULL AND u.minor <> 0
     UNION ALL
    SELECT p_merchant_ids[l.item], p_ids[l.item], 1 + l.number, p_environments[l.item],
           p_currencies[l.item], l.account, l.minor, NULL
      FROM (SELECT u.*, row_number() OVER (PARTITION BY u.item ORDER BY u.place) AS number
              FROM unnest(p_line_items, p_line_accounts, p_line_minors)
                   WITH ORDINALITY AS u (item, account, minor, place)
             WHERE u.minor <> 0) AS l
     WHERE p_ids[l.item] IS NOT NULL;
END $$;
