-- Rails that an administrator has drained: they get no new payouts.

ALTER TABLE rail_state ADD drained_since timestamptz;  -- null: not drained
