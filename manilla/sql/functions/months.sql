-- Returns the partitions of all tables that are partitioned by month, with the ends of their ranges.
CREATE OR REPLACE FUNCTION months()
RETURNS TABLE (parent text, partition text, range_end timestamptz)
LANGUAGE sql STABLE
SET search_path = public, pg_temp
AS $$
    SELECT p.relname::text, c.relname::text,
           substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz
      FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
      JOIN pg_class p ON p.oid = i.inhparent
     WHERE p.relkind = 'p' AND c.relkind = 'r' AND p.relnamespace = 'public'::regnamespace
$$;
