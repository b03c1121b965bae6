-- Adds each cost to its bucket's window. Starts a new window if the old window has ended or is empty.
-- Buckets are locked in sorted order, so statements cannot deadlock.
CREATE OR REPLACE FUNCTION rate_take(p_buckets text[], p_costs bigint[], p_window interval)
RETURNS TABLE (bucket text, used bigint, resets_in_seconds integer)
LANGUAGE sql
SET search_path = public, pg_temp
AS $$
    INSERT INTO rate_window AS w (bucket, started_at, used)
    SELECT new.bucket, clock_timestamp(), new.cost
      FROM unnest(p_buckets, p_costs) AS new (bucket, cost)
     ORDER BY new.bucket COLLATE "C"
        ON CONFLICT (bucket) DO UPDATE
       SET started_at = CASE WHEN w.used = 0 OR w.started_at + p_window <= clock_timestamp()
                             THEN clock_timestamp() ELSE w.started_at END,
           used = CASE WHEN w.started_at + p_window <= clock_timestamp()
                       THEN 0 ELSE w.used END + excluded.used
    RETURNING w.bucket, w.used,
              greatest(1, ceil(extract(epoch FROM w.started_at + p_window - clock_timestamp())))::int
$$;
