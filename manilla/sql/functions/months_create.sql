-- Creates the missing partitions of all tables that are partitioned by month, up to `p_ahead` months
-- after the current one. The function runs with the owner's privileges, because the application's
-- role cannot create tables. Attaching a new table blocks neither reads nor writes, as opposed to
-- `CREATE TABLE ... PARTITION OF`.
CREATE OR REPLACE FUNCTION months_create(p_ahead integer)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
SET TimeZone = utc
AS $$
DECLARE
    v_parent    text;
    v_month     timestamptz;
    v_partition text;
BEGIN
    -- Another worker creates the same partitions.
    IF NOT pg_try_advisory_xact_lock(hashtext('months_create')) THEN
        RETURN;
    END IF;
    SET LOCAL lock_timeout = '3s';
    FOR v_parent, v_month IN SELECT m.parent, max(m.range_end) FROM months() m GROUP BY 1 LOOP
        WHILE v_month <= date_trunc('month', now()) + make_interval(months => p_ahead) LOOP
            v_partition := v_parent || to_char(v_month, '_YYYY_MM');
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', v_partition, v_parent);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                v_parent, v_partition, v_month, v_month + interval '1 month');
            v_month := v_month + interval '1 month';
        END LOOP;
    END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION months_create(integer) FROM PUBLIC;
