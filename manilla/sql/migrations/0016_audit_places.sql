-- Indexes for finding audit log entries by day and by subject.

CREATE INDEX audit_age ON audit USING brin (at) WITH (autosummarize = on);
CREATE INDEX audit_subject ON audit (subject, id);
CREATE INDEX audit_action ON audit (action, subject, id);
