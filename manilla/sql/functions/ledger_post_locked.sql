-- Posts items like `ledger_post`. The caller has locked all wallets that change in an earlier
-- statement, so this function sees what the previous holders of these locks have committed.
--
-- If the merchant owes money (`short_minor`), each credit pays it first, with a posting of the kind
-- `short_paid` whose part is the kind of the credit. The returned balance is the one before that.
CREATE OR REPLACE FUNCTION ledger_post_locked(
    p_items           integer[],  -- the caller's number for each item, returned with its outcome;
                                  -- null: the item is left out
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
-- Use one generic plan with index lookups, regardless of the number of rows: a plan made for an
-- empty table would read a large merchant's whole history for each posting. For the same reason,
-- tables are read only by their full key, one row at a time (LATERAL, LIMIT 1).
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
    balance_max constant bigint := 9000000000000000000;
    bigint_max constant bigint := 9223372036854775807;
    number constant integer := cardinality(p_items);
    outcomes text[] := array_fill(NULL::text, ARRAY[number]);
    ids bigint[] := array_fill(NULL::bigint, ARRAY[number]);  -- posting ids of the posted items
    balances bigint[] := array_fill(NULL::bigint, ARRAY[number]);
    changed tid[] := array_fill(NULL::tid, ARRAY[number]);  -- the wallet that the item changes
    wallets tid[] := '{}';  -- the wallets of the items so far
    running bigint[] := '{}';  -- the balances of `wallets` so far
    owed bigint[] := '{}';  -- what the merchants of `wallets` owe
    paid bigint;
    this integer;  -- index of the item's wallet in `wallets`
    i record;
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT w.place, w.minor
                       FROM unnest(p_wallet_minors) WITH ORDINALITY AS w (minor, place)
                      UNION ALL
                     SELECT * FROM unnest(p_line_items, p_line_minors)) AS amount (place, minor)
         GROUP BY amount.place HAVING sum(amount.minor) <> 0)
    THEN
        RAISE EXCEPTION 'A posting must sum to zero.';
    END IF;
    FOR i IN
        SELECT u.*, w.ctid AS wallet, w.balance_minor AS balance, w.short_minor, p.found,
               k.may_exceed_limit,
               CASE WHEN k.may_exceed_limit THEN bigint_max ELSE balance_max END AS most
          FROM unnest(p_merchant_ids, p_trx_ids, p_kinds, p_environments, p_currencies,
                      p_wallet_minors)
               WITH ORDINALITY AS u (merchant_id, trx_id, kind, environment, currency, minor, place)
          LEFT JOIN LATERAL (
               SELECT wallet.ctid, wallet.balance_minor, wallet.short_minor FROM wallet
                WHERE wallet.merchant_id = u.merchant_id
                  AND wallet.environment = u.environment AND wallet.currency = u.currency
                LIMIT 1) AS w ON true
          LEFT JOIN LATERAL (
               SELECT true AS found FROM posting
                WHERE posting.merchant_id = u.merchant_id
                  AND posting.trx_id = u.trx_id AND posting.kind = u.kind
                LIMIT 1) AS p ON true
          LEFT JOIN LATERAL (
               SELECT posting_kind.may_exceed_limit FROM posting_kind
                WHERE posting_kind.kind = split_part(u.kind, ':', 1)
                LIMIT 1) AS k ON true
         WHERE p_items[u.place] IS NOT NULL
         ORDER BY u.place
    LOOP
        IF i.may_exceed_limit IS NULL THEN
            RAISE EXCEPTION 'The posting kind % is unknown.', i.kind;
        END IF;
        this := array_position(wallets, i.wallet);
        IF this IS NULL THEN
            this := cardinality(wallets) + 1;
            wallets[this] := i.wallet;
            running[this] := i.balance;
            owed[this] := i.short_minor;
        END IF;
        IF array_position(p_trx_ids, i.trx_id) < i.place THEN  -- an earlier item has this id too
            i.found := i.found OR EXISTS (
                SELECT FROM unnest(p_merchant_ids, p_trx_ids, p_kinds, outcomes)
                         AS e (merchant_id, trx_id, kind, outcome)
                 WHERE e.merchant_id = i.merchant_id AND e.trx_id = i.trx_id AND e.kind = i.kind
                   AND e.outcome IN ('posted', 'duplicate'));
        END IF;
        outcomes[i.place] := CASE
            WHEN i.found THEN 'duplicate'
            WHEN i.minor = 0 THEN 'posted'
            WHEN i.wallet IS NULL THEN 'no_wallet'
            WHEN i.minor < 0 AND running[this] + i.minor < 0 THEN 'insufficient_balance'
            WHEN i.minor > 0 AND running[this] > i.most - i.minor THEN 'balance_limit'
            ELSE 'posted'
        END;
        IF outcomes[i.place] = 'posted' THEN
            ids[i.place] := nextval('posting_id_seq');
            IF i.minor <> 0 THEN
                running[this] := running[this] + i.minor;
                balances[i.place] := running[this];
                changed[i.place] := i.wallet;
            END IF;
        END IF;
    END LOOP;

    IF 0 < ANY (owed) THEN
        FOR place IN 1 .. number LOOP
            this := array_position(wallets, changed[place]);
            paid := least(p_wallet_minors[place], owed[this], running[this]);
            CONTINUE WHEN changed[place] IS NULL OR paid <= 0;
            running[this] := running[this] - paid;
            owed[this] := owed[this] - paid;
            ids := ids || nextval('posting_id_seq');
            p_merchant_ids := p_merchant_ids || p_merchant_ids[place];
            p_trx_ids := p_trx_ids || p_trx_ids[place];
            p_kinds := p_kinds || ('short_paid:' || replace(p_kinds[place], ':', '.'));
            p_environments := p_environments || p_environments[place];
            p_currencies := p_currencies || p_currencies[place];
            p_reasons := p_reasons || NULL::text;
            changed := changed || changed[place];
            p_wallet_minors := p_wallet_minors || -paid;
            balances := balances || running[this];
            p_line_items := p_line_items || cardinality(ids);
            p_line_accounts := p_line_accounts || 'short'::text;
            p_line_minors := p_line_minors || paid;
        END LOOP;
    END IF;

    PERFORM ledger_write(
        ids, p_merchant_ids, p_trx_ids, p_kinds, p_environments, p_currencies, p_reasons, changed,
        p_wallet_minors, balances, p_line_items, p_line_accounts, p_line_minors);

    IF cardinality(ids) > number THEN
        UPDATE wallet w SET short_minor = w.short_minor + debt.minor
          FROM (SELECT u.merchant_id, u.environment, u.currency, sum(u.minor)::bigint AS minor
                  FROM unnest(p_merchant_ids[number + 1 :], p_environments[number + 1 :],
                              p_currencies[number + 1 :], p_wallet_minors[number + 1 :])
                       AS u (merchant_id, environment, currency, minor)
                 GROUP BY u.merchant_id, u.environment, u.currency) AS debt
         WHERE w.merchant_id = ANY (ARRAY[debt.merchant_id])
           AND w.environment = debt.environment::environment AND w.currency = debt.currency;
    END IF;

    RETURN QUERY SELECT * FROM unnest(p_items, outcomes, balances[: number]);
END $$;
