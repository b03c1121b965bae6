-- Writes the outcomes of transactions: their rows, ledger postings, timeline events, notifications and
-- jobs. Returns the numbers of the written items. Leaves out an item whose wallet does not exist or
-- would exceed its maximum balance, and changes nothing for it.
--
-- The caller holds the locks on the transactions' rows. All statements then lock wallets, in sorted
-- order, so they cannot deadlock. All items change the same tables, except those with `follows`: each
-- of them is written with the item of this number, or left out with it. They are the last items.
CREATE OR REPLACE FUNCTION outcomes_apply(
    p_items           jsonb,
    p_posting_items   integer[],  -- the number of the posting's item
    p_merchant_ids    bigint[],   -- the postings, like the parameters of `ledger_post_locked`
    p_trx_ids         text[],
    p_kinds           text[],
    p_environments    text[],
    p_currencies      text[],
    p_reasons         text[],
    p_wallet_minors   bigint[],
    p_line_postings   integer[],  -- the number of the line's posting: its index in the arrays above
    p_line_accounts   text[],
    p_line_minors     bigint[],
    p_numbers         integer[],  -- the numbers of the items to write
    p_fences          bigint[]    -- a job is deleted only if it still has this fence; null: always
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
    has_followers constant boolean := p_items -> -1 ? 'follows';
    is_wallet_moved constant boolean := EXISTS (
        SELECT FROM unnest(p_wallet_minors) AS u (minor) WHERE u.minor <> 0);
    -- The jobs that end.
    merchant_ids bigint[];
    kinds text[];
    subjects text[];
    only_unchanged boolean[];
    fences bigint[];
BEGIN
    IF has_followers THEN
        p_numbers := p_numbers || ARRAY(
            SELECT g.item FROM jsonb_to_recordset(p_items) AS g (item integer, follows integer)
             WHERE g.follows = ANY (p_numbers));
    END IF;
    numbers := p_numbers;
    IF is_wallet_moved THEN
        PERFORM FROM (
                SELECT DISTINCT u.m, u.e, u.c
                  FROM unnest(p_posting_items, p_merchant_ids, p_environments, p_currencies,
                              p_wallet_minors) AS u (item, m, e, c, minor)
                 WHERE u.minor <> 0 AND u.item = ANY (p_numbers)
                 ORDER BY u.m, u.e, u.c) AS k
          CROSS JOIN LATERAL (
                SELECT FROM wallet w
                 WHERE w.merchant_id = k.m AND w.environment = k.e AND w.currency = k.c
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
        IF has_followers THEN
            numbers := ARRAY(
                SELECT g.item FROM jsonb_to_recordset(p_items) AS g (item integer, follows integer)
                 WHERE g.item = ANY (numbers) AND coalesce(g.follows, g.item) = ANY (numbers));
        END IF;
    END IF;
    IF cardinality(numbers) IS NULL OR cardinality(numbers) = 0 THEN
        RETURN '{}';
    END IF;

    IF p_items -> -1 ? 'split_key' THEN
        INSERT INTO split AS s (
               merchant_id, trx_id, owner_id, payment_trx_id, environment, ref_trx, currency,
               amount_minor, status, withheld_minor, returned_minor, short_minor, hold_until,
               released_at, traceparent)
        SELECT g.merchant_id, g.split_key, g.split_owner_id, g.split_payment_trx_id, g.environment,
               g.split_payment_trx_id, g.currency, g.split_amount_minor, g.split_status,
               g.split_withheld_minor, g.split_returned_minor, g.split_short_minor,
               g.split_hold_until, g.split_released_at, g.split_traceparent
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, environment environment, currency text,
               split_key text, split_owner_id bigint, split_payment_trx_id text,
               split_amount_minor bigint, split_status text, split_withheld_minor bigint,
               split_returned_minor bigint, split_short_minor bigint,
               split_hold_until timestamptz, split_released_at timestamptz, split_traceparent text)
         WHERE g.item = ANY (numbers) AND g.split_key IS NOT NULL
            ON CONFLICT (merchant_id, trx_id) DO UPDATE
           SET (status, withheld_minor, returned_minor, short_minor, released_at, updated_at)
             = (excluded.status, excluded.withheld_minor, excluded.returned_minor,
                excluded.short_minor, excluded.released_at, now());

        INSERT INTO job (merchant_id, kind, subject, due_at)
        SELECT g.merchant_id, 'split', g.split_key, g.split_due_at
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, split_key text, split_due_at timestamptz)
         WHERE g.item = ANY (numbers) AND g.split_due_at IS NOT NULL
            ON CONFLICT (merchant_id, kind, subject) DO UPDATE
           SET due_at = excluded.due_at, fence = job.fence + 1, parked_at = NULL, failures = 0;
    END IF;
    IF p_items -> 0 ? 'payout_key' THEN
        UPDATE payout p
           SET (status, error_code, guidance, is_reversed, provider_fee_minor, bank_reference,
                provider_reference, session_id, accepted_reference, updated_at)
             = (g.payout_status, g.payout_error_code, g.payout_guidance, g.payout_is_reversed,
                g.payout_provider_fee_minor, g.payout_bank_reference, g.payout_provider_reference,
                g.payout_session_id, NULL, now())
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, payout_key text, payout_status text,
               payout_error_code text, payout_guidance text, payout_is_reversed boolean,
               payout_provider_fee_minor bigint, payout_bank_reference text,
               payout_provider_reference text, payout_session_id text)
         WHERE g.item = ANY (numbers)
           AND p.merchant_id = ANY (ARRAY[g.merchant_id]) AND p.trx_id = g.payout_key;
    END IF;
    IF p_items -> 0 ? 'payment_key' THEN
        UPDATE payment p
           SET (status, error_code, commission_trx_id, credited_charge, refunded_minor,
                received_minor, disputed_minor, commission_minor, tax_minor, price, updated_at)
             = (g.payment_status, g.payment_error_code, g.payment_commission_trx_id,
                g.payment_credited_charge, g.payment_refunded_minor, g.payment_received_minor,
                coalesce(g.payment_disputed_minor, p.disputed_minor),  -- null: from 0.14.0
                coalesce(g.payment_commission_minor, p.commission_minor),  -- null: no stored price
                coalesce(g.payment_tax_minor, p.tax_minor),
                coalesce(g.payment_price::jsonb, p.price), now())
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, payment_key text, payment_status text,
               payment_error_code text, payment_commission_trx_id text,
               payment_credited_charge text, payment_refunded_minor bigint,
               payment_received_minor bigint, payment_disputed_minor bigint,
               payment_commission_minor bigint, payment_tax_minor bigint, payment_price text)
         WHERE g.item = ANY (numbers)
           AND p.merchant_id = ANY (ARRAY[g.merchant_id]) AND p.trx_id = g.payment_key;
    END IF;
    IF p_items -> 0 ? 'charge_key' THEN
        UPDATE charge c
           SET (status, paid_minor, credit_minor, reason, error_code, updated_at,
                provider_reference)
             = (g.charge_status, g.charge_paid_minor, g.charge_credit_minor, g.charge_reason,
                g.charge_error_code, now(),
                coalesce(g.charge_provider_reference, c.provider_reference))
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, charge_key text, charge_status text,
               charge_paid_minor bigint, charge_credit_minor bigint, charge_reason text,
               charge_error_code text, charge_provider_reference text)
         WHERE g.item = ANY (numbers)
           AND c.merchant_id = ANY (ARRAY[g.merchant_id]) AND c.reference = g.charge_key;
    END IF;
    IF p_items -> 0 ? 'refund_key' THEN
        UPDATE refund f
           SET (status, detail, updated_at) = (g.refund_status, g.refund_detail, now())
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, refund_key text, refund_status text,
               refund_detail text)
         WHERE g.item = ANY (numbers)
           AND f.merchant_id = ANY (ARRAY[g.merchant_id]) AND f.trx_id = g.refund_key;
    END IF;

    IF p_items -> 0 ? 'dispute_key' THEN
        UPDATE dispute d
           SET (amount_minor, status, stage, category, reason, respond_by, missed_at, reminders,
                reported_at, outcome_at, withheld_minor, taken_minor, short_minor, fee_minor,
                commission_minor, accepted_minor, answer, answer_detail, answered_at, updated_at)
             = (g.dispute_amount_minor, g.dispute_status, g.dispute_stage, g.dispute_category,
                g.dispute_reason, g.dispute_respond_by, g.dispute_missed_at, g.dispute_reminders,
                g.dispute_reported_at, g.dispute_outcome_at, g.dispute_withheld_minor,
                g.dispute_taken_minor, g.dispute_short_minor, g.dispute_fee_minor,
                g.dispute_commission_minor, g.dispute_accepted_minor, g.dispute_answer,
                g.dispute_answer_detail, g.dispute_answered_at, now())
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, dispute_key text, dispute_amount_minor bigint,
               dispute_status text, dispute_stage text, dispute_category text, dispute_reason text,
               dispute_respond_by timestamptz, dispute_missed_at timestamptz,
               dispute_reminders integer, dispute_reported_at timestamptz,
               dispute_outcome_at timestamptz, dispute_withheld_minor bigint,
               dispute_taken_minor bigint, dispute_short_minor bigint, dispute_fee_minor bigint,
               dispute_commission_minor bigint, dispute_accepted_minor bigint, dispute_answer text,
               dispute_answer_detail text, dispute_answered_at timestamptz)
         WHERE g.item = ANY (numbers)
           AND d.merchant_id = ANY (ARRAY[g.merchant_id]) AND d.trx_id = g.dispute_key;
    END IF;

    IF is_wallet_moved THEN
        PERFORM FROM ledger_post_locked(
                ARRAY(SELECT CASE WHEN u.item = ANY (numbers) THEN u.item END
                        FROM unnest(p_posting_items) AS u (item)),
                p_merchant_ids, p_trx_ids, p_kinds, p_environments, p_currencies, p_reasons,
                p_wallet_minors, p_line_postings, p_line_accounts, p_line_minors) AS posted
          WHERE posted.outcome <> 'posted';
        IF FOUND THEN
            RAISE EXCEPTION 'A posting of a locked transaction was refused.';
        END IF;
    ELSE
        -- The unique key of the postings prevents a second posting of the same kind.
        PERFORM ledger_write(
            ARRAY(SELECT CASE WHEN u.item = ANY (numbers) THEN nextval('posting_id_seq') END
                    FROM unnest(p_posting_items) AS u (item)),
            p_merchant_ids, p_trx_ids, p_kinds, p_environments, p_currencies, p_reasons, NULL,
            p_wallet_minors, NULL, p_line_postings, p_line_accounts, p_line_minors);
    END IF;

    INSERT INTO timeline (merchant_id, trx_id, number, event, from_status, to_status, detail, facts)
    SELECT g.merchant_id, g.trx_id,
           (SELECT coalesce(max(t.number), 0) + 1 FROM timeline t
             WHERE t.merchant_id = g.merchant_id AND t.trx_id = g.trx_id),
           g.step, g.from_status, g.to_status, g.detail, g.facts
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, step text, from_status text,
           to_status text, detail text, facts jsonb)
     WHERE g.item = ANY (numbers) AND g.step IS NOT NULL;

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
