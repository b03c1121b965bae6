-- What a rail says about a transfer after the payout was moved away from it.
--
-- A payout that such a rail may have paid must not be refunded, and the rail's fee is posted with the
-- amount.

ALTER TABLE payout_attempt ADD reported text;  -- the status at the rail; null: it never contradicted us
ALTER TABLE payout_attempt ADD provider_fee_minor bigint;
-- The provider that the case is about; null if the case is about none, or is older.
ALTER TABLE operator_case ADD provider text;
