-- Returns the digest of what an accepted payout pays to whom, which is the reason of its posting. The
-- hash chain covers postings, so a payout that was changed afterwards differs from its posting.
--
-- The planner replaces a call by the expression, but only because the function is not immutable:
-- `convert_to` is not either.
--
-- A failover to another provider may change the provider and the reference of the name enquiry. If
-- the merchant has chosen the provider, the bank's code is the provider's own.
CREATE OR REPLACE FUNCTION payout_destination(
    p_environment text, p_currency text, p_amount_minor bigint, p_provider text,
    p_is_routed boolean, p_beneficiary jsonb)
RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT 'sha256:' || encode(sha256(convert_to(
           p_environment || E'\n' || p_currency || E'\n' || p_amount_minor::text || E'\n'
           || CASE WHEN p_is_routed THEN '*' ELSE coalesce(p_provider, '') END || E'\n'
           || (p_beneficiary - 'name_enquiry_reference')::text, 'UTF8')), 'hex')
$$;
