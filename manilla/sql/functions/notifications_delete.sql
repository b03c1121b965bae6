-- Deletes up to `p_number` notifications that are older than `p_age` and have no delivery and no
-- attempt any more, stores up to when they were deleted, and returns how many were deleted.
-- The function runs with the owner's privileges, and rejects an age below 90 days, so that the
-- application cannot delete notifications that somebody still needs.
-- A merchant that is being moved is skipped until the move has ended. The copy of a merchant that
-- lives in another cell expires too, but nothing is stored about it.
CREATE OR REPLACE FUNCTION notifications_delete(p_age interval, p_number integer)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
AS $$
DECLARE
    v_deleted bigint;
BEGIN
    IF p_age < interval '90 days' THEN
        RAISE EXCEPTION 'Notifications are kept for at least 90 days.';
    END IF;
    WITH old AS MATERIALIZED (
        SELECT merchant_id, id, created_at FROM notification n
         WHERE created_at < now() - p_age AND state <> 'waiting'
           AND NOT EXISTS (SELECT FROM endpoint_delivery d
                            WHERE d.merchant_id = n.merchant_id AND d.trx_id = n.trx_id
                              AND d.notification_id = n.id)
           AND NOT EXISTS (SELECT FROM delivery_attempt a
                            WHERE a.merchant_id = n.merchant_id AND a.notification_id = n.id)
           AND NOT EXISTS (SELECT FROM merchant_fence f
                            WHERE f.merchant_id = n.merchant_id
                              AND f.state IN ('leaving', 'arriving'))
         ORDER BY created_at LIMIT p_number),
    stored AS (
        INSERT INTO deleted_notifications AS d (merchant_id, until)
        SELECT merchant_id, max(created_at) FROM old
         WHERE NOT lives_elsewhere(merchant_id)
         GROUP BY merchant_id ORDER BY merchant_id
            ON CONFLICT (merchant_id) DO UPDATE SET until = greatest(d.until, excluded.until)),
    deleted AS (
        DELETE FROM notification n USING old
         WHERE n.merchant_id = old.merchant_id AND n.id = old.id AND n.state <> 'waiting'
        RETURNING true)
    SELECT count(*) INTO v_deleted FROM deleted;
    RETURN v_deleted;
END $$;
REVOKE EXECUTE ON FUNCTION notifications_delete(interval, integer) FROM PUBLIC;
