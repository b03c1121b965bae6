-- Writes the outcomes of transactions: their rows, ledger postings, timeline events, notifications and
-- jobs. Returns the numbers of the written items. Leaves out an item whose wallet does not exist or
-- would exceed its maximum balance, and changes nothing for it.
--
-- The caller holds the locks on the transactions' rows. All statements then lock wallets, in sorted
-- order, so they cannot deadlock. All items change the same tables.
CREATE OR REPLACE FUNCTION outcomes_apply(
    p_items   jsonb,
    p_numbers integer[],  -- the numbers of the items to write
    p_fences  bigint[]    -- a job is deleted only if it still has this fence; null: in any case
) RETURNS integer[]
LANGUAGE plpgsql
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan  -- see `ledger_post_locked`
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    balance_max constant bigint := 9000000000000000000;
    numbers integer[];
    -- The jobs that end.
    merchant_ids bigint[];
    kinds text[];
    subjects text[];
    only_unchanged boolean[];
    fences bigint[];
BEGIN
    PERFORM FROM (
            SELECT DISTINCT g.merchant_id, g.environment, g.currency
              FROM jsonb_to_recordset(p_items) AS g (
                   item integer, merchant_id bigint, environment text, currency text,
                   moves_wallet boolean)
             WHERE g.moves_wallet AND g.item = ANY (p_numbers)
             ORDER BY g.merchant_id, g.environment, g.currency) AS k
      CROSS JOIN LATERAL (
            SELECT FROM wallet w
             WHERE w.merchant_id = k.merchant_id AND w.environment = k.environment
               AND w.currency = k.currency
               FOR NO KEY UPDATE) AS locked;

    -- This new statement sees what the previous holders of these locks have committed.
    SELECT array_agg(g.item) INTO numbers
      FROM (SELECT i.item, i.merchant_id, i.environment, i.currency, i.credit_minor,
                   sum(i.credit_minor) OVER (
                       PARTITION BY i.merchant_id, i.environment, i.currency) AS added
              FROM jsonb_to_recordset(p_items) AS i (
                   item integer, merchant_id bigint, environment text, currency text,
                   credit_minor bigint)
             WHERE i.item = ANY (p_numbers)) AS g
      LEFT JOIN LATERAL (
           SELECT wallet.balance_minor FROM wallet
            WHERE wallet.merchant_id = g.merchant_id AND wallet.environment = g.environment
              AND wallet.currency = g.currency
            LIMIT 1) AS w ON true
     WHERE g.credit_minor = 0 OR w.balance_minor + g.added <= balance_max;
    IF numbers IS NULL THEN
        RETURN '{}';
    END IF;

    IF p_items -> 0 ? 'payout' THEN
        UPDATE payout p
           SET (status, error_code, guidance, is_reversed, provider_fee_minor, bank_reference,
                provider_reference, session_id, accepted_reference, updated_at)
             = (r.status, r.error_code, r.guidance, r.is_reversed, r.provider_fee_minor,
                r.bank_reference, r.provider_reference, r.session_id, NULL, now())
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, payout_key text, payout jsonb)
         CROSS JOIN LATERAL jsonb_populate_record(NULL::payout, g.payout) AS r
         WHERE g.item = ANY (numbers)
           AND p.merchant_id = ANY (ARRAY[g.merchant_id]) AND p.trx_id = g.payout_key;
    END IF;
    IF p_items -> 0 ? 'payment' THEN
        UPDATE payment p
           SET (status, error_code, commission_trx_id, credited_charge, refunded_minor,
                received_minor, updated_at)
             = (r.status, r.error_code, r.commission_trx_id, r.credited_charge, r.refunded_minor,
                r.received_minor, now())
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, payment_key text, payment jsonb)
         CROSS JOIN LATERAL jsonb_populate_record(NULL::payment, g.payment) AS r
         WHERE g.item = ANY (numbers)
           AND p.merchant_id = ANY (ARRAY[g.merchant_id]) AND p.trx_id = g.payment_key;
    END IF;
    IF p_items -> 0 ? 'charge' THEN
        UPDATE charge c
           SET (status, paid_minor, credit_minor, reason, error_code, updated_at,
                provider_reference)
             = (r.status, r.paid_minor, r.credit_minor, r.reason, r.error_code, now(),
                coalesce(r.provider_reference, c.provider_reference))
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, charge_key text, charge jsonb)
         CROSS JOIN LATERAL jsonb_populate_record(NULL::charge, g.charge) AS r
         WHERE g.item = ANY (numbers)
           AND c.merchant_id = ANY (ARRAY[g.merchant_id]) AND c.reference = g.charge_key;
    END IF;
    IF p_items -> 0 ? 'refund' THEN
        UPDATE refund f
           SET (status, detail, updated_at) = (r.status, r.detail, now())
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, refund_key text, refund jsonb)
         CROSS JOIN LATERAL jsonb_populate_record(NULL::refund, g.refund) AS r
         WHERE g.item = ANY (numbers)
           AND f.merchant_id = ANY (ARRAY[g.merchant_id]) AND f.trx_id = g.refund_key;
    END IF;

    PERFORM FROM (
            SELECT array_agg(n.number) AS numbers, array_agg(n.merchant_id) AS merchant_ids,
                   array_agg(n.trx_id) AS trx_ids, array_agg(n.kind) AS kinds,
                   array_agg(n.environment) AS environments, array_agg(n.currency) AS currencies,
                   array_agg(n.reason) AS reasons, array_agg(n.wallet_minor) AS wallet_minors,
                   jsonb_agg(n.lines) AS lines
              FROM (SELECT row_number() OVER ()::integer AS number, g.merchant_id, g.environment, p.*
                      FROM jsonb_to_recordset(p_items) AS g (
                           item integer, merchant_id bigint, environment text, postings jsonb)
                     CROSS JOIN LATERAL jsonb_to_recordset(g.postings) AS p (
                           trx_id text, kind text, currency text, reason text, wallet_minor bigint,
                           lines jsonb)
                     WHERE g.item = ANY (numbers)) AS n
            HAVING count(*) > 0) AS p
      CROSS JOIN LATERAL (
            SELECT array_agg(e.place::integer) AS places, array_agg(line.account) AS accounts,
                   array_agg(line.minor) AS minors
              FROM jsonb_array_elements(p.lines) WITH ORDINALITY AS e (lines, place)
             CROSS JOIN LATERAL jsonb_to_recordset(e.lines) AS line (account text, minor bigint)
            ) AS l
      CROSS JOIN LATERAL ledger_post_locked(
            p.numbers, p.merchant_ids, p.trx_ids, p.kinds, p.environments, p.currencies, p.reasons,
            p.wallet_minors, l.places, l.accounts, l.minors) AS posted
      WHERE posted.outcome <> 'posted';
    IF FOUND THEN
        RAISE EXCEPTION 'A posting of a locked transaction was refused.';
    END IF;

    INSERT INTO timeline (merchant_id, trx_id, number, event, from_status, to_status, detail, facts)
    SELECT g.merchant_id, g.trx_id,
           (SELECT coalesce(max(t.number), 0) + 1 FROM timeline t
             WHERE t.merchant_id = g.merchant_id AND t.trx_id = g.trx_id),
           g.step, g.from_status, g.to_status, g.detail, g.facts
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, step text, from_status text,
           to_status text, detail text, facts jsonb)
     WHERE g.item = ANY (numbers);

    INSERT INTO notification (merchant_id, id, environment, trx_id, event, type, status, url, body,
                              state, epoch)
    SELECT g.merchant_id, g.notice_id, g.environment::environment, g.trx_id, g.event, g.event_type,
           g.notice_status, g.ipn_url, convert_to(g.notice, 'UTF8'),
           CASE WHEN g.ipn_url = '' THEN 'not_sent' ELSE 'waiting' END,
           (SELECT current_event_epoch())  -- once per statement; the default is once per row
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, environment text, notice_id text,
           event text, event_type text, notice_status text, ipn_url text, notice text)
     WHERE g.item = ANY (numbers) AND g.notice_id IS NOT NULL;

    SELECT array_agg(g.merchant_id), array_agg(ended.kind), array_agg(ended.subject),
           array_agg(ended.only_unchanged), array_agg(p_fences[array_position(p_numbers, g.item)])
      INTO merchant_ids, kinds, subjects, only_unchanged, fences
      FROM jsonb_to_recordset(p_items) AS g (item integer, merchant_id bigint, jobs jsonb)
     CROSS JOIN LATERAL jsonb_to_recordset(g.jobs) AS ended (
           kind text, subject text, only_unchanged boolean)
     WHERE g.item = ANY (numbers);
    DELETE FROM job
     USING unnest(merchant_ids, kinds, subjects, only_unchanged, fences)
           AS u (merchant_id, kind, subject, only_unchanged, fence)
     WHERE job.merchant_id = ANY (ARRAY[u.merchant_id]) AND job.kind = u.kind
       AND job.subject = u.subject AND (p_fences IS NULL OR job.fence = u.fence)
       AND (NOT u.only_unchanged OR job.lease IS NULL OR job.lease = job.fence);

    INSERT INTO job (merchant_id, kind, subject, due_at)
    SELECT g.merchant_id, 'notify', g.trx_id, now()
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, ipn_url text)
     WHERE g.item = ANY (numbers) AND g.ipn_url <> ''
     ORDER BY g.merchant_id, g.trx_id
        ON CONFLICT (merchant_id, kind, subject) DO UPDATE
       SET due_at = least(job.due_at, excluded.due_at), fence = job.fence + 1,
           parked_at = NULL, failures = 0;

    RETURN numbers;
END $$;
