-- The reference that the provider returned when it accepted the payout, while the payout is open.
-- The column has no index, so that saving an acceptance adds no index entries. The reference moves to
-- `provider_reference`, which has an index, when the payout ends or after its first status query.
ALTER TABLE payout ADD accepted_reference text;
