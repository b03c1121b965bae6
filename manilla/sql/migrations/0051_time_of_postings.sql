-- The time of a posting is when it is written, while its wallet is locked, and no longer when its
-- transaction began: a transaction that waited for the lock would be dated before the one that it
-- waited for, although it is the later line of the statement.
ALTER TABLE posting ALTER COLUMN posted_at SET DEFAULT clock_timestamp();
