-- The language in which the customer sees checkout, for the receipt by email. Null is English.

ALTER TABLE payment ADD language text;
