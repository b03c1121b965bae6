-- The choice of the rail is in `payout_attempt`. Merchants must not read it.
UPDATE payout
   SET accepted_note = regexp_replace(
       accepted_note, ' Sent by \w+\.( Not chosen: [^.]*\.)?', '')
 WHERE accepted_note LIKE '% Sent by %';
