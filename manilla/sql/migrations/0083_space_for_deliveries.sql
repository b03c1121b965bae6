-- Leaves more free space in the pages of `endpoint_delivery`. A delivery is updated once. If its page
-- has space for the new version of the row, the update adds no index entries.
ALTER TABLE endpoint_delivery SET (fillfactor = 65);
