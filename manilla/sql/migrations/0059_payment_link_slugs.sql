-- A short address for each new payment link. Links from before keep their long one.

ALTER TABLE payment_link ADD slug text;

CREATE UNIQUE INDEX CONCURRENTLY payment_link_slug ON payment_link (merchant_id, slug)
    WHERE slug IS NOT NULL;
