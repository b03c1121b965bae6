-- The signatures with two lines for each item. Only the previous version calls them, also from
-- functions that run while they are replaced.
CREATE OR REPLACE FUNCTION previous_lines(
    p_first_accounts text[], p_first_minors bigint[], p_second_accounts text[],
    p_second_minors bigint[], OUT items integer[], OUT accounts text[], OUT minors bigint[])
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
    items := ARRAY(SELECT generate_series(1, cardinality(p_first_minors)));
    items := items || items;
    accounts := p_first_accounts || p_second_accounts;
    minors := p_first_minors || ARRAY(SELECT coalesce(m, 0) FROM unnest(p_second_minors) AS m);
END $$;

CREATE OR REPLACE FUNCTION ledger_post(
    p_items integer[], p_merchant_ids bigint[], p_trx_ids text[], p_kinds text[],
    p_environments text[], p_currencies text[], p_reasons text[], p_wallet_minors bigint[],
    p_first_accounts text[], p_first_minors bigint[], p_second_accounts text[],
    p_second_minors bigint[])
RETURNS TABLE (item integer, outcome text, balance_minor bigint)
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
    RETURN QUERY SELECT posted.*
      FROM previous_lines(p_first_accounts, p_first_minors, p_second_accounts, p_second_minors) AS l
     CROSS JOIN LATERAL ledger_post(
           p_items, p_merchant_ids, p_trx_ids, p_kinds, p_environments, p_currencies, p_reasons,
           p_wallet_minors, l.items, l.accounts, l.minors) AS posted;
END $$;

CREATE OR REPLACE FUNCTION ledger_post_locked(
    p_items integer[], p_merchant_ids bigint[], p_trx_ids text[], p_kinds text[],
    p_environments text[], p_currencies text[], p_reasons text[], p_wallet_minors bigint[],
    p_first_accounts text[], p_first_minors bigint[], p_second_accounts text[],
    p_second_minors bigint[])
RETURNS TABLE (item integer, outcome text, balance_minor bigint)
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
    RETURN QUERY SELECT posted.*
      FROM previous_lines(p_first_accounts, p_first_minors, p_second_accounts, p_second_minors) AS l
     CROSS JOIN LATERAL ledger_post_locked(
           p_items, p_merchant_ids, p_trx_ids, p_kinds, p_environments, p_currencies, p_reasons,
           p_wallet_minors, l.items, l.accounts, l.minors) AS posted;
END $$;

CREATE OR REPLACE FUNCTION ledger_write(
    p_ids bigint[], p_merchant_ids bigint[], p_trx_ids text[], p_kinds text[],
    p_environments text[], p_currencies text[], p_reasons text[], p_wallets tid[],
    p_wallet_minors bigint[], p_balances bigint[], p_first_accounts text[],
    p_first_minors bigint[], p_second_accounts text[], p_second_minors bigint[])
RETURNS void
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
    PERFORM FROM
            previous_lines(p_first_accounts, p_first_minors, p_second_accounts, p_second_minors) AS l
      CROSS JOIN LATERAL ledger_write(
            p_ids, p_merchant_ids, p_trx_ids, p_kinds, p_environments, p_currencies, p_reasons,
            p_wallets, p_wallet_minors, p_balances, l.items, l.accounts, l.minors);
END $$;
