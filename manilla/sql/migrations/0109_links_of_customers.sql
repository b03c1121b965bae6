-- The customer whose account numbers a payment link shows.
ALTER TABLE payment_link ADD customer_reference text;
