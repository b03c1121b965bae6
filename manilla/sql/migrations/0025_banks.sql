-- Each provider account's own bank codes, and the banks that they mean.

INSERT INTO change (topic) VALUES ('banks');

CREATE TABLE provider_bank (
    provider      text NOT NULL,
    code          text NOT NULL,
    name          text NOT NULL,  -- as the provider gives it
    bank          text,  -- the bank's code in our registry
    matched_by    text CHECK (matched_by IN ('code', 'name', 'manual')),
    doubt         text CHECK (doubt IN ('contradiction', 'duplicate', 'renamed')),
    is_listed     boolean NOT NULL,  -- whether the latest list has it
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, code),
    CHECK (bank IS NULL OR matched_by IS NOT NULL)
);
