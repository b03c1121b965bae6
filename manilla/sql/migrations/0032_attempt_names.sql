-- The account holder's name at each rail that a payout has left.

-- As the provider resolved it; of a dead attempt.
ALTER TABLE payout_attempt ADD account_name text;
