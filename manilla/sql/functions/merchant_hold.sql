-- Returns the reason of `hold_of_merchant` as a value.
CREATE OR REPLACE FUNCTION merchant_hold(p_merchant_id bigint, p_environment environment)
RETURNS text
LANGUAGE sql STABLE
SET search_path = public, pg_temp
AS $$
    SELECT reason FROM hold_of_merchant(p_merchant_id, p_environment)
$$;
