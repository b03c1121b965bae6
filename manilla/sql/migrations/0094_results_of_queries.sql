-- The provider's answer to the last status query that did not end the job, for the pages of the
-- transaction that the job is about.
ALTER TABLE job ADD result text, ADD result_at timestamptz;
