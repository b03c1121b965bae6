-- Writes fewer index entries for each payout.
--
-- A payout's row is updated at least three times. An update that changes no indexed column adds no
-- index entry if its page has free space for the new version of the row. So leave more free space.
ALTER TABLE payout SET (fillfactor = 60);

-- `posting_place` has the time too.
DROP INDEX CONCURRENTLY IF EXISTS posting_age;

-- Only the deletion of old deliveries reads this index.
CREATE INDEX CONCURRENTLY endpoint_delivery_time ON endpoint_delivery USING brin (created_at);
DROP INDEX CONCURRENTLY IF EXISTS endpoint_delivery_age;
