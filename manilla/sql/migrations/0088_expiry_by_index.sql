-- Old rows are found by an index on their time. A BRIN index finds them less and less: its ranges
-- keep the oldest time that they ever had, while new rows reuse the space of deleted rows.
CREATE INDEX CONCURRENTLY delivery_attempt_age ON delivery_attempt (at);
CREATE INDEX CONCURRENTLY endpoint_delivery_age ON endpoint_delivery (created_at);
CREATE INDEX CONCURRENTLY idempotency_time ON idempotency (created_at);
CREATE INDEX CONCURRENTLY webhook_time ON webhook (received_at);
DROP INDEX CONCURRENTLY IF EXISTS endpoint_delivery_time;
DROP INDEX CONCURRENTLY IF EXISTS idempotency_age;
DROP INDEX CONCURRENTLY IF EXISTS webhook_age;
