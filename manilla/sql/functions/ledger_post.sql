-- Posts a batch of items of any merchants and returns an outcome for each item. A rejected item
-- raises no exception, so it does not affect the other items:
--   posted                the item was posted
--   duplicate             the item was posted before: a merchant's (trx_id, kind) is posted only once
--   insufficient_balance  the wallet cannot cover the item
--   no_wallet             the merchant has no such wallet
--   balance_limit         the balance would come too close to the 64-bit maximum; a refund to the
--                         wallet that was debited before may exceed this limit
--
-- An item adds `wallet_minor`, which can be 0, to the wallet, and the amounts of its lines to platform
-- accounts. An item's amounts sum to zero. All statements lock wallets in sorted order, so
-- they cannot deadlock.
CREATE OR REPLACE FUNCTION ledger_post(
    p_items           integer[],  -- the caller's number for each item, returned with its outcome
    p_merchant_ids    bigint[],
    p_trx_ids         text[],
    p_kinds           text[],
    p_environments    text[],
    p_currencies      text[],
    p_reasons         text[],
    p_wallet_minors   bigint[],
    p_line_items      integer[],  -- the number of the line's item: its index in the arrays above
    p_line_accounts   text[],
    p_line_minors     bigint[]
) RETURNS TABLE (item integer, outcome text, balance_minor bigint)
LANGUAGE plpgsql
SET search_path = public, pg_temp
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
        p_wallet_minors, p_line_items, p_line_accounts, p_line_minors);
END $$;
