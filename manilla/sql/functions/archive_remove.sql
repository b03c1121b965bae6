-- Removes a merchant's archived transactions with all their rows, and returns the ids of the
-- transactions that were removed. A transaction that can no longer be archived stays.
--
-- The sums of the removed postings stay in the ledger as postings of the kind `carried_forward`, so
-- that all balances and all rules about them stay the same. A carried posting replaces neighbouring
-- postings, and has the id and the time of the last of them. Its wallet entry has the balance after
-- that posting. The wallet's entries between two carried postings were not removed.
--
-- Only the owner of the tables may delete their rows, so this function fails for other roles.
CREATE OR REPLACE FUNCTION archive_remove(
    p_merchant_id bigint, p_trx_ids text[], p_last_id bigint, p_until timestamptz)
RETURNS text[]
LANGUAGE plpgsql
SET search_path = public, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    c_carried constant text := 'carried_forward';
    v_trx_ids  text[];
    v_ids      text[];
    v_postings bigint[];
    v_carried  jsonb;
    v_entries  jsonb;
BEGIN
    PERFORM archive_lock(p_merchant_id, p_trx_ids);
    SELECT array_agg(DISTINCT t.trx_id), array_agg(i.id) INTO v_trx_ids, v_ids
      FROM unnest(p_trx_ids) AS t (trx_id)
     CROSS JOIN LATERAL unnest(archivable(p_merchant_id, t.trx_id, p_last_id, p_until)) AS i (id);
    IF v_trx_ids IS NULL THEN
        RETURN '{}';
    END IF;

    -- Earlier carried postings are replaced too, so that neighbours become one posting.
    WITH gone AS MATERIALIZED (
        SELECT p.id, p.environment, p.currency, p.posted_at,
               lag(p.id) OVER (PARTITION BY p.environment, p.currency ORDER BY p.id) AS before_id
          FROM posting p
         WHERE p.merchant_id = p_merchant_id AND p.trx_id = ANY (v_ids || c_carried)),
    grouped AS MATERIALIZED (
        SELECT g.id, g.environment, g.currency, g.posted_at,
               count(*) FILTER (WHERE EXISTS (
                   SELECT FROM entry e
                    WHERE e.merchant_id = p_merchant_id AND e.environment = g.environment
                      AND e.currency = g.currency AND e.account = 'wallet'
                      AND e.posting_id > g.before_id AND e.posting_id < g.id))
                   OVER (PARTITION BY g.environment, g.currency ORDER BY g.id) AS number
          FROM gone g),
    carried AS MATERIALIZED (
        SELECT environment, currency, number, max(id) AS id, max(posted_at) AS posted_at
          FROM grouped GROUP BY environment, currency, number),
    sums AS (
        SELECT c.id AS posting_id, c.environment, c.currency, e.account,
               sum(e.amount_minor)::bigint AS amount_minor,
               (array_agg(e.balance_minor ORDER BY e.posting_id DESC, e.line DESC))[1]
               AS balance_minor
          FROM carried c
          JOIN grouped g USING (environment, currency, number)
          JOIN entry e ON e.merchant_id = p_merchant_id AND e.posting_id = g.id
         GROUP BY c.id, c.environment, c.currency, e.account
        HAVING sum(e.amount_minor) <> 0)
    SELECT (SELECT array_agg(id) FROM gone),
           (SELECT jsonb_agg(to_jsonb(c)) FROM carried c
             WHERE EXISTS (SELECT FROM sums s WHERE s.posting_id = c.id)),
           (SELECT jsonb_agg(to_jsonb(s)) FROM sums s)
      INTO v_postings, v_carried, v_entries;

    DELETE FROM entry t
     WHERE t.merchant_id = p_merchant_id AND t.posting_id = ANY (v_postings);
    DELETE FROM posting t
     WHERE t.merchant_id = p_merchant_id AND t.trx_id = ANY (v_ids || c_carried);
    INSERT INTO posting (merchant_id, id, environment, currency, kind, trx_id, reason, posted_at)
        OVERRIDING SYSTEM VALUE
    SELECT p_merchant_id, c.id, c.environment, c.currency, c_carried || ':' || c.id, c_carried,
           'The sum of archived postings', c.posted_at
      FROM jsonb_to_recordset(v_carried) AS c (
           id bigint, environment text, currency text, posted_at timestamptz);
    INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account,
                       amount_minor, balance_minor)
    SELECT p_merchant_id, s.posting_id,
           row_number() OVER (PARTITION BY s.posting_id ORDER BY s.account <> 'wallet', s.account),
           s.environment, s.currency, s.account, s.amount_minor,
           CASE s.account WHEN 'wallet' THEN s.balance_minor END
      FROM jsonb_to_recordset(v_entries) AS s (
           posting_id bigint, environment text, currency text, account text,
           amount_minor bigint, balance_minor bigint);

    UPDATE payment_link l
       SET archived_count = l.archived_count + p.number,
           archived_minor = l.archived_minor + p.minor
      FROM (SELECT t.link_id, count(*) AS number, sum(t.amount_minor) AS minor FROM payment t
             WHERE t.merchant_id = p_merchant_id AND t.trx_id = ANY (v_trx_ids)
               AND t.link_id IS NOT NULL AND t.status = 'success'
             GROUP BY t.link_id) AS p
     WHERE l.merchant_id = p_merchant_id AND l.id = p.link_id;
    PERFORM archive_delete(p_merchant_id, v_ids, v_postings);
    RETURN v_trx_ids;
END $$;
REVOKE EXECUTE ON FUNCTION archive_remove(bigint, text[], bigint, timestamptz) FROM PUBLIC;
