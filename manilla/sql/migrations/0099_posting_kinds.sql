-- The kinds of postings. `manilla migrate` inserts the kinds of `posting_kinds.py`. It deletes no kind,
-- because the previous version may still post a kind that the new version has removed.
CREATE TABLE posting_kind (
    kind             text PRIMARY KEY,
    may_exceed_limit boolean NOT NULL  -- whether a wallet may then exceed its maximum balance
);
