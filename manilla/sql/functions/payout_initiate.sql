-- Creates a batch of payouts of any merchants, debits the wallets, and returns an outcome for each:
--   created               the wallet was debited, and the payout and its job were created
--   free                  dry run (`only_look`): the payout could be created
--   rate_limited          the caller has exceeded its rate limit; nothing was written
--   api_key_ended         the additional API key that orders the payout was revoked or has expired
--   replayed              the key was used before with the same body; returns the first response
--   key_conflict          the key was used before with another body
--   duplicate             the reference was used before; returns the first payout
--   again                 the outcome depends on an earlier item of the batch: retry
--   day_limit             the merchant's payouts of the day would exceed its daily limit
--   merchant_blocked      the merchant is rejected or disabled, or pending in production
--   payout_disabled       payouts are disabled for the merchant or for the platform
--   no_wallet             the merchant has no active wallet in this currency
--   insufficient_balance  the wallet cannot cover the amount and the fee
--   account_not_saved     the merchant may pay only saved accounts, and this account is not saved
--   row_decided           the payout file's row was already paid, rejected or stopped
--
-- Cached data may be used to reject a payout, but only this function permits a payout. It reads the
-- merchant, the settings, the wallet and its balance while it holds the wallet's lock. The code that
-- stops a payout file takes the same lock, so each row is either paid here or stopped there. Wallets
-- are locked first and rate limits second, both in sorted order, so statements cannot deadlock.
CREATE OR REPLACE FUNCTION payout_initiate(p_items jsonb, p_window interval)
RETURNS TABLE (
    item integer, outcome text, trx_id text, status text, answer text,
    used bigint, resets_in_seconds integer)
LANGUAGE plpgsql
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_sort = off  -- see the queries for the reference and the day
AS $$
#variable_conflict use_column
DECLARE
    buckets text[];
    costs bigint[];
    this record;  -- the item in the loop
    this_wallet tid;
    running bigint;  -- the wallet's balance so far
    -- The items to write, as arrays in the same order.
    number integer := 0;
    places integer[];  -- 1 to `number`
    created integer[];
    posting_ids bigint[];
    merchant_ids bigint[];
    trx_ids text[];
    environments text[];
    currencies text[];
    wallets tid[];
    wallet_minors bigint[];
    balances bigint[];
    amounts bigint[];
    fees bigint[];
    -- The lines of taxes that the platform owes.
    tax_places integer[] := '{}';
    tax_accounts text[] := '{}';
    tax_minors bigint[] := '{}';
    destinations text[];
    -- Whether any of these items needs a row in the tables for routes, files, events or keys.
    has_routes boolean := false;
    has_file_rows boolean := false;
    has_events boolean := false;
    has_keys boolean := false;
BEGIN
    PERFORM FROM (
            SELECT DISTINCT g.merchant_id, g.environment, g.currency
              FROM jsonb_to_recordset(p_items)
                   AS g (merchant_id bigint, environment text, currency text)
             ORDER BY g.merchant_id, g.environment, g.currency) AS k
      CROSS JOIN LATERAL (
            SELECT FROM wallet w
             WHERE w.merchant_id = k.merchant_id
               AND w.environment = k.environment AND w.currency = k.currency
               FOR NO KEY UPDATE) AS locked;

    SELECT array_agg(b.bucket), array_agg(b.cost) INTO buckets, costs
      FROM (SELECT g.bucket, sum(coalesce(g.cost, 1))::bigint AS cost
              FROM jsonb_to_recordset(p_items) AS g (bucket text, cost bigint)
             GROUP BY g.bucket) AS b;

    -- This new statement sees what the previous holders of these locks have committed. It selects
    -- only the columns that decide the outcome. The statements below parse `p_items` again, which is
    -- faster than rows with every column. The API omits fields that have their default value.
    FOR this IN
        SELECT g.item, g.merchant_id, g.trx_id, g.environment, g.currency, g.amount_minor,
               g.fee_minor, g.tax_minor, g.tax_accounts, g.tax_minors, g.debit_minor, g.used,
               g.resets_in_seconds, g.same_key[2] AS first_answer,
               g.same_reference[1] AS first_trx_id, g.same_reference[2] AS first_status,
               g.wallet, g.balance_minor,
               CASE WHEN g.only_look IS NOT TRUE THEN payout_destination(
                    g.environment, g.currency, g.amount_minor, g.provider,
                    g.rail_bank_code IS NOT NULL, g.beneficiary)
               END AS destination,
               g.route IS NOT NULL AS has_route, g.batch_id IS NOT NULL AS is_of_file,
               g.event_id IS NOT NULL AS has_event, g.key IS NOT NULL AS has_key,
               CASE
               WHEN coalesce(g.cost, 1) > 0 AND g.used > g.rate_limit THEN 'rate_limited'
               -- `NOT EXISTS` could read the whole table, with a plan that was made for an empty
               -- table.
               WHEN g.api_key IS NOT NULL AND (
                    SELECT a.revoked_at IS NULL AND (a.expires_at IS NULL OR a.expires_at > now())
                      FROM api_key a
                     WHERE a.merchant_id = g.merchant_id
                       AND a.environment = g.environment::environment
                       AND a.number = g.api_key) IS NOT TRUE
                    THEN 'api_key_ended'
               WHEN g.same_key[1] = g.body_hash THEN 'replayed'
               WHEN g.same_key IS NOT NULL THEN 'key_conflict'
               WHEN g.merchant_status IN ('rejected', 'disabled')
                 OR (g.merchant_status = 'pending' AND g.environment = 'production')
                    THEN 'merchant_blocked'
               WHEN NOT g.payouts_enabled OR EXISTS (
                    SELECT FROM setting
                     WHERE setting.key = 'withdrawals_enabled' AND value = 'false')
                    THEN 'payout_disabled'
               WHEN g.batch_id IS NOT NULL AND (
                    SELECT b.state FROM payout_batch_row b
                     WHERE b.merchant_id = g.merchant_id AND b.batch_id = g.batch_id
                       AND b.number = g.batch_row) IS DISTINCT FROM 'ready'
                    THEN 'row_decided'
               WHEN g.wallet_status IS DISTINCT FROM 'active' THEN 'no_wallet'
               WHEN g.same_reference IS NOT NULL THEN 'duplicate'
               WHEN g.day_minor + g.amount_minor > g.day_limit_minor THEN 'day_limit'
               WHEN g.balance_minor < g.debit_minor THEN 'insufficient_balance'
               WHEN g.accounts_locked AND g.only_look IS NOT TRUE AND (
                    SELECT a.active FROM payout_account a
                     WHERE a.merchant_id = g.merchant_id
                       AND a.id = g.saved_account_id) IS NOT TRUE
                    THEN 'account_not_saved'
               WHEN g.repeats THEN 'again'
               WHEN g.only_look THEN 'free'
               -- Retry after the batch's earlier items, because one of them may be rejected.
               WHEN g.day_minor + coalesce(g.ahead_minor, 0) + g.amount_minor > g.day_limit_minor
                    THEN 'again'
               ELSE 'created'
               END AS outcome
          FROM (
               -- Look up each row by its full key: a plan for the average merchant would read a
               -- large merchant's whole history. A subquery in the select list is faster than a
               -- join. `OFFSET 0` makes each subquery run only once.
               SELECT g.*, g.amount_minor + g.fee_minor + coalesce(g.tax_minor, 0) AS debit_minor,
                      t.used - coalesce(g.behind, 0) AS used, t.resets_in_seconds,
                      m.status AS merchant_status, m.payouts_enabled, m.accounts_locked,
                      w.ctid AS wallet, w.status AS wallet_status, w.balance_minor,
                      CASE WHEN g.key IS NOT NULL THEN (
                           SELECT ARRAY[i.body_hash, i.answer] FROM idempotency i
                            WHERE i.merchant_id = g.merchant_id
                              AND i.environment = g.environment::environment
                              AND i.endpoint = g.endpoint AND i.key = g.key)
                      END AS same_key,
                      -- The same as `ref_trx = g.ref_trx`, but in an order that only the unique
                      -- index on the reference provides without a sort. With an equality the
                      -- planner could also choose the primary key and scan the whole merchant: on
                      -- an empty table both indexes cost the same, and sessions keep such a plan
                      -- while the table grows.
                      (SELECT ARRAY[o.trx_id, o.status] FROM payout o
                        WHERE o.merchant_id = g.merchant_id
                          AND o.environment = g.environment::environment
                          AND o.ref_trx BETWEEN g.ref_trx AND g.ref_trx
                        ORDER BY o.ref_trx
                        LIMIT 1) AS same_reference,
                      -- Only the primary key provides this order without a sort, so only this day's
                      -- rows are read. With another index, a plan that was made for an empty table
                      -- would read all rows of the merchant.
                      CASE WHEN g.day_limit_minor IS NOT NULL THEN (
                           SELECT coalesce(sum(day.amount_minor), 0)
                             FROM (SELECT o.amount_minor FROM payout o
                                    WHERE o.merchant_id = g.merchant_id
                                      AND o.trx_id >= g.day_from
                                      AND o.environment = g.environment::environment
                                      AND o.currency = g.currency
                                      AND o.status IN ('pending', 'completed')
                                    ORDER BY o.trx_id) AS day)
                      END AS day_minor
                 FROM jsonb_to_recordset(p_items) AS g (
                      item integer, repeats boolean, merchant_id bigint, bucket text, cost bigint,
                      behind bigint, rate_limit bigint, only_look boolean, trx_id text,
                      environment text, ref_trx text, currency text, amount_minor bigint,
                      fee_minor bigint, route jsonb, batch_id text, batch_row integer,
                      saved_account_id bigint, api_key integer, endpoint text, key text,
                      body_hash text, day_limit_minor bigint, day_from text, ahead_minor bigint,
                      event_id text, provider text, rail_bank_code text, beneficiary jsonb,
                      tax_minor bigint, tax_accounts text[], tax_minors bigint[])
                 JOIN rate_take(buckets, costs, p_window) AS t ON t.bucket = g.bucket
                 LEFT JOIN LATERAL (
                      SELECT merchant.status, merchant.payouts_enabled, merchant.accounts_locked
                        FROM merchant
                       WHERE merchant.id = g.merchant_id
                       LIMIT 1) AS m ON true
                 LEFT JOIN LATERAL (
                      SELECT wallet.ctid, wallet.status, wallet.balance_minor FROM wallet
                       WHERE wallet.merchant_id = g.merchant_id
                         AND wallet.environment = g.environment::environment
                         AND wallet.currency = g.currency
                       LIMIT 1) AS w ON true
                OFFSET 0) AS g
         ORDER BY g.wallet, g.item
    LOOP
        IF this.wallet IS DISTINCT FROM this_wallet THEN
            this_wallet := this.wallet;
            running := this.balance_minor;
        END IF;
        outcome := this.outcome;
        IF outcome = 'created' THEN
            IF running < this.debit_minor THEN
                outcome := 'insufficient_balance';
            ELSE
                running := running - this.debit_minor;
                number := number + 1;
                created[number] := this.item;
                posting_ids[number] := nextval('posting_id_seq');
                merchant_ids[number] := this.merchant_id;
                trx_ids[number] := this.trx_id;
                environments[number] := this.environment;
                currencies[number] := this.currency;
                wallets[number] := this_wallet;
                wallet_minors[number] := -this.debit_minor;
                balances[number] := running;
                amounts[number] := this.amount_minor;
                fees[number] := this.fee_minor;
                IF this.tax_accounts IS NOT NULL THEN
                    -- What is not paid on top of the fee is a part of it.
                    fees[number] := this.fee_minor + coalesce(this.tax_minor, 0)
                        - (SELECT sum(minor) FROM unnest(this.tax_minors) AS u (minor));
                    tax_places := tax_places
                        || array_fill(number, ARRAY[cardinality(this.tax_accounts)]);
                    tax_accounts := tax_accounts || this.tax_accounts;
                    tax_minors := tax_minors || this.tax_minors;
                END IF;
                destinations[number] := this.destination;
                has_routes := has_routes OR this.has_route;
                has_file_rows := has_file_rows OR this.is_of_file;
                has_events := has_events OR this.has_event;
                has_keys := has_keys OR this.has_key;
            END IF;
        END IF;
        item := this.item;
        trx_id := this.first_trx_id;
        status := this.first_status;
        answer := this.first_answer;
        used := this.used;
        resets_in_seconds := this.resets_in_seconds;
        RETURN NEXT;
    END LOOP;

    IF number > 0 THEN
        places := ARRAY(SELECT generate_series(1, number));
        PERFORM ledger_write(
            posting_ids, merchant_ids, trx_ids, array_fill('payout'::text, ARRAY[number]),
            environments, currencies, destinations, wallets,
            wallet_minors, balances, places || places || tax_places,
            array_fill('in_flight'::text, ARRAY[number])
            || array_fill('payout_fee'::text, ARRAY[number]) || tax_accounts,
            amounts || fees || tax_minors);

        INSERT INTO payout (
               merchant_id, trx_id, environment, ref_trx, currency, amount_minor, fee_minor,
               method_id, method_code, method_name, provider, beneficiary, account_name,
               description, ipn_url, scenario, remarks, ordered_by, rail_bank_code, accepted_note,
               created_at, traceparent, tax_minor, price, purpose)
        SELECT merchant_id, trx_id, environment, ref_trx, currency, amount_minor, fee_minor,
               method_id, method_code, method_name, provider, beneficiary, account_name,
               description, ipn_url, scenario, remarks, ordered_by, rail_bank_code,
               -- The previous version of the code sends `note`. If the rail was chosen automatically,
               -- `note` names the rail, which merchants must not see.
               coalesce(accepted, CASE WHEN route IS NULL THEN note END, ''),
               coalesce(created_at, now()),  -- the previous version of the code sends no time
               traceparent, coalesce(tax_minor, 0), price::jsonb, purpose
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, trx_id text, environment text,
               ref_trx text, currency text, amount_minor bigint, fee_minor bigint,
               method_id integer, method_code text, method_name text, provider text,
               beneficiary jsonb, account_name text, description text, ipn_url text,
               scenario text, remarks text, ordered_by text, rail_bank_code text, note text,
               accepted text, route jsonb, created_at timestamptz, traceparent text,
               tax_minor bigint, price text, purpose text)
         WHERE item = ANY (created)
         ORDER BY merchant_id, environment, ref_trx;

        INSERT INTO job (merchant_id, kind, subject, due_at)
        SELECT merchant_id, kind, trx_id, now() + make_interval(secs => in_seconds)
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, trx_id text, job_kind text,
               due_in_seconds float8, mail_job_kind text)
         CROSS JOIN LATERAL (VALUES (job_kind, coalesce(due_in_seconds, 0)),
                                   (mail_job_kind, 0))
                 AS needed (kind, in_seconds)
         WHERE item = ANY (created) AND kind IS NOT NULL;

        IF has_routes THEN
            INSERT INTO payout_attempt (merchant_id, trx_id, number, provider, decision)
            SELECT merchant_id, trx_id, 1, provider, route
              FROM jsonb_to_recordset(p_items) AS g (
                   item integer, merchant_id bigint, trx_id text, provider text, route jsonb)
             WHERE item = ANY (created) AND route IS NOT NULL;
        END IF;

        IF has_file_rows THEN
            UPDATE payout_batch_row AS b SET state = 'paid', trx_id = g.trx_id
              FROM jsonb_to_recordset(p_items) AS g (
                   item integer, merchant_id bigint, trx_id text, batch_id text, batch_row integer)
             WHERE g.item = ANY (created)
               AND b.merchant_id = ANY (ARRAY[g.merchant_id]) AND b.batch_id = g.batch_id
               AND b.number = g.batch_row;
        END IF;

        IF has_events THEN  -- one of the merchant's webhook endpoints is subscribed
            INSERT INTO notification (
                   merchant_id, id, environment, trx_id, event, type, status, url, body, state)
            SELECT merchant_id, event_id, environment, trx_id, event, 'payout.pending', 'pending',
                   '', convert_to(event_body, 'UTF8'), 'not_sent'
              FROM jsonb_to_recordset(p_items) AS g (
                   item integer, merchant_id bigint, environment text, trx_id text,
                   event_id text, event text, event_body text)
             WHERE item = ANY (created) AND event_id IS NOT NULL;
        END IF;

        IF has_keys THEN
            INSERT INTO idempotency (merchant_id, environment, endpoint, key, body_hash, answer)
            SELECT merchant_id, environment, endpoint, key, body_hash, answer
              FROM jsonb_to_recordset(p_items) AS g (
                   item integer, merchant_id bigint, environment text, endpoint text,
                   key text, body_hash text, answer text)
             WHERE item = ANY (created) AND key IS NOT NULL;
        END IF;
    END IF;
END $$;
