-- How an attempt ended, as a value. Until now it was read from the beginning of a sentence.

ALTER TABLE payout_attempt ADD ended_as text
    CHECK (ended_as IN ('rejected', 'not_received', 'elsewhere'));

UPDATE payout_attempt
   SET ended_as = CASE WHEN starts_with(dead_because, 'rejected ') THEN 'rejected'
                       WHEN starts_with(dead_because, 'never ') THEN 'not_received'
                       ELSE 'elsewhere' END
 WHERE dead_at IS NOT NULL;
