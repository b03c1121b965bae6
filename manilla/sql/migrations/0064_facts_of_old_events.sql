-- In a transaction of its own, so that readers do not wait for the new column's lock on the table.
-- New events wait. Nothing but the new column changes, so the rule of append-only tables is lifted.

ALTER TABLE timeline DISABLE TRIGGER append_only;

UPDATE timeline SET facts = jsonb_strip_nulls(CASE event
    WHEN 'moved_to_another_rail' THEN jsonb_build_object('ended_as', CASE
         WHEN position(' rejected the transfer: ' IN detail) > 0 THEN 'rejected'
         WHEN starts_with(detail, 'Moved to ') THEN 'elsewhere'
         ELSE 'not_received' END)
    WHEN 'charge_declined' THEN jsonb_build_object(
         'shown', nullif(split_part(detail, 'Checkout says: ', 2), ''))
    WHEN 'gateway_chosen' THEN jsonb_build_object(
         'gateway', substring(detail FROM 'Chose ([^;]*?): '),
         'after', substring(detail FROM 'Chose [^;]*?: next after (.*), which did not create'),
         'reason', CASE substring(detail FROM 'Chose [^;]*?: ([^,;]*?)[.]?(?:[,;]|$)')
              WHEN 'the only gateway' THEN 'only'
              WHEN 'the only gateway that is available' THEN 'only_available'
              WHEN 'nothing went wrong with it' THEN 'no_setbacks'
              WHEN 'it failed least' THEN 'fewest_setbacks'
              WHEN 'the account for the transfer is shown on checkout' THEN 'on_checkout'
              WHEN 'first in the merchant''s order' THEN 'first_of_merchant'
              WHEN 'next in the merchant''s order' THEN 'next_of_merchant'
              WHEN 'the lowest fee' THEN 'lowest_fee'
              WHEN 'first in the platform''s order' THEN 'first_of_platform'
              ELSE CASE WHEN position(': next after ' IN detail) > 0 THEN 'next' END END)
    ELSE jsonb_build_object(
         'refund', split_part(detail, ', ', 1),
         'amount', split_part(split_part(detail, ': ', 1), ', ', 2),
         'reason', CASE WHEN event IN ('refund_started', 'return_started')
                        THEN substr(detail, position(': ' IN detail) + 2) END)
    END)
 WHERE detail IS NOT NULL AND facts = '{}'
   AND event IN ('moved_to_another_rail', 'charge_declined', 'gateway_chosen',
                 'refund_started', 'refund_completed', 'refund_failed',
                 'return_started', 'return_completed', 'return_failed');

ALTER TABLE timeline ENABLE TRIGGER append_only;
