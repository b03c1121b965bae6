-- Indexes for finding a payout by its session id or by the provider's reference.

-- Both columns are written once or twice in a payout's life, so few updates lose HOT.
CREATE INDEX CONCURRENTLY payout_session_id ON payout (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX CONCURRENTLY payout_provider_reference ON payout (provider_reference)
    WHERE provider_reference IS NOT NULL;
