-- The reason for rejecting or disabling a merchant, shown to the merchant.

ALTER TABLE merchant ADD COLUMN status_reason text;
