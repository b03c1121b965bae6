-- A merchant's notifications that were created up to this time may have been deleted, because they
-- were older than `notification_retention_days`.
CREATE TABLE deleted_notifications (
    merchant_id bigint PRIMARY KEY,
    until       timestamptz NOT NULL
);
