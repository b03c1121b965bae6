-- The trace of the request that created the transaction, as the header `traceparent`. The column is
-- null, and takes no space, unless tracing is on.

ALTER TABLE payment ADD traceparent text;
ALTER TABLE payout ADD traceparent text;
ALTER TABLE refund ADD traceparent text;
