-- When the ledger balance of a day with an imported statement was computed.
ALTER TABLE statement_day ADD ledger_at timestamptz;
