-- The database checks how an account's name is written. The code that posts knows the accounts, so a
-- new account needs no migration.
ALTER DOMAIN ledger_account DROP CONSTRAINT ledger_account_check;
ALTER DOMAIN ledger_account ADD CONSTRAINT ledger_account_check CHECK (
    VALUE <> '' AND translate(VALUE, 'abcdefghijklmnopqrstuvwxyz0123456789_:', '') = '') NOT VALID;
