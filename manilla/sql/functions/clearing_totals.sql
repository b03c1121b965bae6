-- Returns the sum of a clearing account's production entries in each currency: the stored total and
-- the entries of later postings. Entries of merchants that live in another cell are not part of it.
CREATE OR REPLACE FUNCTION clearing_totals(p_account text)
RETURNS TABLE (currency text, minor bigint)
LANGUAGE sql STABLE
SET search_path = public, pg_temp
-- Later postings are few, but the planner does not know that.
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
    SELECT part.currency, sum(part.minor)::bigint
      FROM (SELECT t.currency, t.minor FROM clearing_total t
             WHERE t.account = p_account AND t.environment = 'production'
             UNION ALL
            SELECT e.currency, e.amount_minor
              FROM posting p
             CROSS JOIN LATERAL (
                   SELECT entry.currency, entry.amount_minor FROM entry
                    WHERE entry.merchant_id = p.merchant_id AND entry.posting_id = p.id
                      AND entry.account = p_account
                   OFFSET 0) AS e
             WHERE p.id > (SELECT h.last_id FROM clearing_total_head h)
               AND p.environment = 'production'
               AND NOT lives_elsewhere(p.merchant_id)) AS part
     GROUP BY part.currency
$$;
