-- Prepares the request log for partitions by month.
--
-- The existing table becomes the first partition, without a copy of its rows. PostgreSQL attaches a
-- partition without reading it if a valid constraint guarantees its range. This migration adds the
-- constraint, the next one validates it while requests continue, and 0076 attaches the table.

-- The range ends after the next month, so that the migrations can be interrupted for weeks.
CREATE FUNCTION months_limit(of_table text, key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I CHECK (%I < %L) NOT VALID',
        of_table, of_table || '_months', key,
        date_trunc('month', now(), 'UTC') + interval '2 months');
END $$;

SELECT months_limit('api_request', 'at');
