-- In a transaction of its own: the new column's lock on the table is released, so that this update
-- blocks no new notifications.

UPDATE notification SET type = event_type(event, status, body) WHERE type IS NULL;
