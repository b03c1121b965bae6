-- Posts items, of any merchants, and returns an outcome for each. A rejected item is an outcome, not
-- an exception, so that it does not affect the other items:
--   posted                the item was posted
--   duplicate             it was posted before: (trx_id, kind) of a merchant is posted only once
--   insufficient_balance  the wallet cannot cover it
--   no_wallet             the merchant has no such wallet
--   balance_limit         the balance would come too close to the 64-bit maximum; money that returns
--                         to the wallet that it was taken from may exceed this limit
--
-- An item adds `wallet_minor` (0: nothing) to the wallet and the rest to one or two of the
-- platform's accounts; the sum is zero. All statements lock wallets in sorted order, so they cannot
-- deadlock.
CREATE OR REPLACE FUNCTION ledger_post(
    p_items           integer[],  -- the caller's number for each item, returned with its outcome
    p_merchant_ids    bigint[],
    p_trx_ids         text[],
    p_kinds           text[],
    p_environments    text[],
    p_currencies      text[],
    p_reasons         text[],
    p_wallet_minors   bigint[],
    p_first_accounts  text[],
    p_first_minors    bigint[],
    p_second_accounts text[],     -- null: the item has no third entry
    p_second_minors   bigint[]
) RETURNS TABLE (item integer, outcome text, balance_minor bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan  -- see `ledger_post_locked`
SET enable_seqscan = off
AS $$
BEGIN
    PERFORM FROM (
            SELECT DISTINCT u.m, u.e, u.c
              FROM unnest(p_merchant_ids, p_environments, p_currencies, p_wallet_minors)
                   AS u (m, e, c, minor)
             WHERE u.minor <> 0
             ORDER BY u.m, u.e, u.c) AS k
      CROSS JOIN LATERAL (
            SELECT FROM wallet w
             WHERE w.merchant_id = k.m AND w.environment = k.e AND w.currency = k.c
               FOR NO KEY UPDATE) AS locked;

    RETURN QUERY SELECT * FROM ledger_post_locked(
        p_items, p_merchant_ids, p_trx_ids, p_kinds, p_environments, p_currencies, p_reasons,
        p_wallet_minors, p_first_accounts, p_first_minors, p_second_accounts, p_second_minors);
END $$;
