-- Whether a main API key starts with its merchant's number, so that a proxy finds the merchant's
-- cell. The number cannot be read from the hash. Keys from before do not have it.
ALTER TABLE credential ADD has_number boolean NOT NULL DEFAULT false;
