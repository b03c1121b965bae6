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
-- One generic plan that uses the keys, however many rows there are: a plan made for an empty table
-- would read a large merchant's whole history for each posting. For the same reason tables are only
-- read by their full key, one row at a time (LATERAL, LIMIT 1).
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
    balance_max constant bigint := 9000000000000000000;
    bigint_max constant bigint := 9223372036854775807;
    returns constant text[] := '{payout_refund,refund_returned}';
    outcomes text[] := array_fill(NULL::text, ARRAY[cardinality(p_items)]);
    balances bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(p_items)]);
    running bigint[] := '{}';  -- the balance so far, by wallet number
    i record;
BEGIN
    IF EXISTS (
        SELECT FROM unnest(p_wallet_minors, p_first_minors, p_second_minors) AS u (w, a, b)
         WHERE w + a + coalesce(b, 0) <> 0)
    THEN
        RAISE EXCEPTION 'A posting must sum to zero.';
    END IF;

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

    -- This new statement sees what the previous holders of these locks have committed.
    FOR i IN
        SELECT u.place, u.minor,
               CASE WHEN u.kind = ANY (returns) THEN bigint_max ELSE balance_max END AS most,
               dense_rank() OVER (ORDER BY u.merchant_id, u.environment, u.currency) AS wallet,
               w.balance_minor AS balance, p.found IS NOT NULL AS in_books,
               lag(u.place) OVER (
                   PARTITION BY u.merchant_id, u.trx_id, u.kind ORDER BY u.place) AS earlier
          FROM unnest(p_merchant_ids, p_trx_ids, p_kinds, p_environments, p_currencies,
                      p_wallet_minors)
               WITH ORDINALITY AS u (merchant_id, trx_id, kind, environment, currency, minor, place)
          LEFT JOIN LATERAL (
               SELECT wallet.balance_minor FROM wallet
                WHERE wallet.merchant_id = u.merchant_id
                  AND wallet.environment = u.environment AND wallet.currency = u.currency
                LIMIT 1) AS w ON true
          LEFT JOIN LATERAL (
               SELECT true AS found FROM posting
                WHERE posting.merchant_id = u.merchant_id
                  AND posting.trx_id = u.trx_id AND posting.kind = u.kind
                LIMIT 1) AS p ON true
         ORDER BY u.place
    LOOP
        running[i.wallet] := coalesce(running[i.wallet], i.balance);
        outcomes[i.place] := CASE
            WHEN i.in_books OR outcomes[i.earlier] IN ('posted', 'duplicate') THEN 'duplicate'
            WHEN i.minor = 0 THEN 'posted'
            WHEN running[i.wallet] IS NULL THEN 'no_wallet'
            WHEN i.minor < 0 AND running[i.wallet] + i.minor < 0 THEN 'insufficient_balance'
            WHEN i.minor > 0 AND running[i.wallet] > i.most - i.minor THEN 'balance_limit'
            ELSE 'posted'
        END;
        IF outcomes[i.place] = 'posted' AND i.minor <> 0 THEN
            running[i.wallet] := running[i.wallet] + i.minor;
            balances[i.place] := running[i.wallet];
        END IF;
    END LOOP;

    -- Update by ctid, which cannot change while we hold the lock: a join by the key could be planned
    -- as a scan of all wallets.
    UPDATE wallet w
       SET balance_minor = w.balance_minor + moved.minor
      FROM (SELECT u.m, u.e, u.c, sum(u.minor)::bigint AS minor
              FROM unnest(p_merchant_ids, p_environments, p_currencies, p_wallet_minors, outcomes)
                   AS u (m, e, c, minor, outcome)
             WHERE u.outcome = 'posted' AND u.minor <> 0
             GROUP BY u.m, u.e, u.c) AS moved
     CROSS JOIN LATERAL (
            SELECT wallet.ctid FROM wallet
             WHERE wallet.merchant_id = moved.m
               AND wallet.environment = moved.e AND wallet.currency = moved.c
             LIMIT 1) AS found
     WHERE w.ctid = found.ctid;

    WITH accepted AS MATERIALIZED (
        SELECT nextval('posting_id_seq') AS id, a.*
          FROM (SELECT u.* FROM unnest(
                       p_merchant_ids, p_trx_ids, p_kinds, p_environments, p_currencies, p_reasons,
                       p_wallet_minors, p_first_accounts, p_first_minors, p_second_accounts,
                       p_second_minors, outcomes, balances) WITH ORDINALITY
                    AS u (merchant_id, trx_id, kind, environment, currency, reason, wallet_minor,
                          first_account, first_minor, second_account, second_minor,
                          outcome, balance_minor, place)
                 WHERE u.outcome = 'posted'
                 ORDER BY u.place) AS a
    ), posted AS (
        INSERT INTO posting (merchant_id, id, environment, currency, kind, trx_id, reason)
               OVERRIDING SYSTEM VALUE
        SELECT a.merchant_id, a.id, a.environment, a.currency, a.kind, a.trx_id, a.reason
          FROM accepted a
    )
    INSERT INTO entry
           (merchant_id, posting_id, line, environment, currency, account, amount_minor, balance_minor)
    SELECT a.merchant_id, a.id, line.line, a.environment, a.currency,
           line.account, line.minor, line.balance
      FROM accepted a
     CROSS JOIN LATERAL (VALUES
           (1, 'wallet', a.wallet_minor, a.balance_minor),
           (2, a.first_account, a.first_minor, NULL),
           (3, a.second_account, a.second_minor, NULL)) AS line (line, account, minor, balance)
     WHERE line.minor <> 0;

    RETURN QUERY SELECT * FROM unnest(p_items, outcomes, balances);
END $$;
