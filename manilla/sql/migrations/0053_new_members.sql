-- New members can approve nothing at first.

-- From when the member can be the second person. Those who are members now can at once. The previous
-- version, which runs during the upgrade, does not write the column.
ALTER TABLE membership ADD approves_from timestamptz NOT NULL DEFAULT now();
ALTER TABLE membership ALTER approves_from SET DEFAULT now() + interval '24 hours';
