-- An index for finding old webhooks.

-- Rows are written in order of this column, so a BRIN index is enough.
CREATE INDEX CONCURRENTLY webhook_age ON webhook USING brin (received_at);
