-- What merchants may read of an event, as values. Until now it was cut out of the details, which are
-- sentences for administrators.

ALTER TABLE timeline ADD facts jsonb NOT NULL DEFAULT '{}';
