-- API keys for shops, which manage webhook endpoints of their own.

ALTER TABLE api_key DROP CONSTRAINT api_key_rights_check;
ALTER TABLE api_key ADD CONSTRAINT api_key_rights_check CHECK (
    cardinality(rights || further_rights) > 0
    AND rights <@ ARRAY['payments', 'payouts', 'refunds', 'read']
    AND further_rights <@ ARRAY['manage', 'charge', 'webhooks']);

-- The number of the additional API key that owns the endpoint. Null: only the merchant does.
ALTER TABLE webhook_endpoint ADD api_key integer;
