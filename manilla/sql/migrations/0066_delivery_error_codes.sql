-- Why a delivery failed, as a value. Until now, addresses that are not public were recognized by the
-- end of the error's text.

ALTER TABLE delivery_attempt ADD error_code text;
