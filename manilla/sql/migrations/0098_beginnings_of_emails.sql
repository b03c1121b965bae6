-- The search finds a merchant's payments by the beginning of the customer's email address. With
-- this collation, addresses with the same beginning are neighbors in the index of every database.
-- Because of `coalesce`, the planner cannot use payment_email for this search, in which the
-- merchant's rows are scattered.
CREATE INDEX CONCURRENTLY payment_email_beginning
    ON payment (merchant_id, environment, (coalesce(lower(customer_email), '') COLLATE "C"))
    WHERE coalesce(customer_email, '') <> '';
