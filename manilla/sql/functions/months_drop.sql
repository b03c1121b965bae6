-- Drops the months of the request log that ended before a time. The function runs with the owner's
-- privileges, and rejects all other tables, so that the application cannot drop records.
CREATE OR REPLACE FUNCTION months_drop(p_parent text, p_before timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
AS $$
DECLARE
    v_partition text;
BEGIN
    IF p_parent <> 'api_request' THEN
        RAISE EXCEPTION 'Months of % must not be dropped.', p_parent;
    END IF;
    SET LOCAL lock_timeout = '3s';
    FOR v_partition IN
        SELECT m.partition FROM months() m WHERE m.parent = p_parent AND m.range_end <= p_before
    LOOP
        EXECUTE format('DROP TABLE %I', v_partition);
    END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION months_drop(text, timestamptz) FROM PUBLIC;
