-- Returns the reason of `hold_of_outgoing` as a value.
CREATE OR REPLACE FUNCTION outgoing_hold(
    p_merchant_id bigint, p_environment environment, p_on_behalf boolean)
RETURNS text
LANGUAGE sql STABLE
SET search_path = public, pg_temp
AS $$
    SELECT reason FROM hold_of_outgoing(p_merchant_id, p_environment, p_on_behalf)
$$;
