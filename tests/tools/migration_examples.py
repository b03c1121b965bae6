"""For each rule of `tools.migrations`, a migration that breaks the rule and one that follows it."""

import msgspec

from manilla.sql.runner import REPEATED


class Example(msgspec.Struct, frozen=True):
    rule: str
    bad: str
    good: str
    before: str = ""  # an earlier migration, which both migrations need


EXAMPLES = (
    Example(
        "rewrite",
        "ALTER TABLE payment ADD COLUMN mark float NOT NULL DEFAULT random();",
        "ALTER TABLE payment ADD COLUMN seen_at timestamptz NOT NULL DEFAULT now();",
    ),
    Example(
        "rewrite",
        "ALTER TABLE payment ADD mark bigint GENERATED ALWAYS AS (amount_minor * 2) STORED;",
        "ALTER TABLE payment ADD mark bigint GENERATED ALWAYS AS (amount_minor * 2) VIRTUAL;",
    ),
    Example(
        "rewrite",
        "ALTER TABLE payment ADD COLUMN other text, ADD number bigserial;",
        "ALTER TABLE payment ADD COLUMN other text, ADD number bigint;",
    ),
    Example(
        "rewrite",
        "ALTER TABLE public.payment ADD paid_currency currency;",
        "ALTER TABLE public.payment ADD paid_currency text;",
    ),
    Example(
        "type",
        "ALTER TABLE payment ALTER COLUMN amount_minor TYPE numeric;",
        "ALTER TABLE payment ADD COLUMN exact_amount numeric(18, 2);",
    ),
    Example(
        "not null",
        "ALTER TABLE payment ALTER remarks SET NOT NULL;",
        "ALTER TABLE payment ALTER note SET NOT NULL;",
        before="ALTER TABLE payment ADD note text DEFAULT '';"
        "ALTER TABLE payment ADD CONSTRAINT has_note CHECK (note IS NOT NULL) NOT VALID;"
        "ALTER TABLE payment VALIDATE CONSTRAINT has_note;",
    ),
    Example(
        "not null",
        "ALTER TABLE payment ALTER note SET NOT NULL;",
        "ALTER TABLE payment ADD CONSTRAINT note_set NOT NULL note NOT VALID;",
        before="ALTER TABLE payment ADD note text DEFAULT '',"
        " ADD CONSTRAINT has_note CHECK (note IS NOT NULL) NOT VALID;",
    ),
    Example(
        "scan",
        "ALTER TABLE payment ADD CONSTRAINT positive CHECK (amount_minor > 0);",
        "ALTER TABLE payment ADD CONSTRAINT positive CHECK (amount_minor > 0) NOT VALID;",
    ),
    Example(
        "scan",
        "ALTER TABLE payment ADD COLUMN mark text CHECK (mark IN ('a', 'b'));",
        "ALTER TABLE payment ADD COLUMN mark text,"
        " ADD CONSTRAINT known_mark CHECK (mark IN ('a', 'b')) NOT VALID;",
    ),
    Example(
        "scan",
        "ALTER TABLE payment ADD CONSTRAINT mark_key UNIQUE (merchant_id, mark);",
        "ALTER TABLE payment ADD CONSTRAINT mark_key UNIQUE USING INDEX payment_mark;",
        before="ALTER TABLE payment ADD mark text;\n"
        "CREATE UNIQUE INDEX CONCURRENTLY payment_mark ON payment (merchant_id, mark);",
    ),
    Example(
        "scan",
        "ALTER DOMAIN currency ADD CONSTRAINT no_test CHECK (VALUE <> 'XTS');",
        "ALTER DOMAIN currency ADD CONSTRAINT no_test CHECK (VALUE <> 'XTS') NOT VALID;",
    ),
    Example(
        "validate",
        "ALTER TABLE payment ADD mark text; ALTER TABLE payment VALIDATE CONSTRAINT positive;",
        "ALTER TABLE payment VALIDATE CONSTRAINT positive;",
        before="ALTER TABLE payment ADD CONSTRAINT positive CHECK (amount_minor > 0) NOT VALID;",
    ),
    Example(
        "index",
        "CREATE INDEX payment_age ON payment (created_at, trx_id);",
        "CREATE INDEX CONCURRENTLY payment_age ON payment (created_at, trx_id);",
    ),
    Example(
        "index",
        "DROP INDEX IF EXISTS payment_reference_hash;",
        "DROP INDEX CONCURRENTLY IF EXISTS payment_reference_hash;",
    ),
    Example(
        "index",
        "CREATE INDEX payment_age ON ONLY payment (created_at, trx_id);",
        "CREATE TABLE thing (id bigint); CREATE INDEX thing_id ON thing (id);",
    ),
    Example(
        "order",
        "CREATE INDEX CONCURRENTLY mark ON payment (trx_id);\nALTER TABLE payment ADD mark text;",
        "ALTER TABLE payment ADD mark text;\nCREATE INDEX CONCURRENTLY mark ON payment (trx_id);",
    ),
    Example(
        "order",
        "ALTER TABLE payment ADD mark text; CREATE INDEX CONCURRENTLY mark ON payment (trx_id);",
        "CREATE INDEX CONCURRENTLY mark ON payment (trx_id);",
    ),
    Example(
        "bulk",
        "UPDATE payment SET remarks = NULL;",
        f"{REPEATED}UPDATE payment SET remarks = NULL WHERE (merchant_id, trx_id) IN"
        " (SELECT merchant_id, trx_id FROM payment WHERE remarks = '' LIMIT 5000);",
    ),
    Example(
        "bulk",
        "DELETE FROM api_request WHERE status = 200;",
        f"{REPEATED}DELETE FROM api_request WHERE ctid IN"
        " (SELECT ctid FROM api_request WHERE status = 200 LIMIT 5000);",
    ),
    Example(
        "bulk",
        f"{REPEATED}UPDATE payment SET remarks = NULL WHERE remarks = '';",
        "UPDATE method SET name = upper(name);",
    ),
    Example(
        "backfill",
        f"{REPEATED}UPDATE payment SET mark = 'a' WHERE ctid IN"
        " (SELECT ctid FROM payment WHERE mark IS NULL LIMIT 5000);",
        f"{REPEATED}UPDATE payout SET mark = 'a' WHERE ctid IN"
        " (SELECT ctid FROM payout WHERE mark IS NULL LIMIT 5000);",
        before="ALTER TABLE payment ADD mark text; ALTER TABLE payout ADD mark text;"
        "CREATE FUNCTION fill_mark() RETURNS trigger LANGUAGE plpgsql AS $$\n"
        "BEGIN NEW.mark := coalesce(NEW.mark, 'a'); RETURN NEW; END $$;"
        "CREATE TRIGGER fill_mark BEFORE INSERT ON payout"
        " FOR EACH ROW EXECUTE FUNCTION fill_mark();",
    ),
    Example(
        "fill",
        "ALTER TABLE setting ADD COLUMN mark text NOT NULL;",
        "ALTER TABLE setting ADD COLUMN mark text NOT NULL DEFAULT '', ADD other text;",
    ),
    Example(
        "lock",
        "LOCK TABLE payment IN SHARE MODE;",
        "COMMENT ON TABLE payment IS 'LOCK TABLE payment; -- and DROP TABLE payment;';",
    ),
    Example(
        "lock",
        "ALTER TABLE timeline DISABLE TRIGGER append_only;",
        "ALTER TABLE timeline SET (fillfactor = 90);",
    ),
    Example(
        "removal",
        "ALTER TABLE setting DROP COLUMN value;",
        "ALTER TABLE setting DROP COLUMN unused;",
        before="ALTER TABLE setting ADD unused text;",
    ),
    Example(
        "removal",
        "ALTER TABLE setting RENAME COLUMN value TO text;",
        "ALTER TABLE setting RENAME COLUMN unused TO text;",
        before="ALTER TABLE setting ADD unused text;",
    ),
    Example("removal", "DROP TABLE shop_news;", "DROP TABLE unused;", "CREATE TABLE unused ();"),
    Example(
        "removal",
        "DROP FUNCTION rate_take(jsonb);",
        "CREATE FUNCTION unused() RETURNS integer LANGUAGE sql RETURN 1;",
        before="CREATE FUNCTION rate_take(jsonb) RETURNS integer LANGUAGE sql RETURN 1;",
    ),
    Example(
        "removal",
        "ALTER TABLE setting ALTER value DROP NOT NULL;",
        "ALTER TABLE setting ALTER value SET DEFAULT '';",
    ),
    Example(
        "unknown",
        "DO $$ BEGIN UPDATE payment SET remarks = NULL; END $$;",
        "/* DO */ INSERT INTO change SELECT * FROM change WHERE false;",
    ),
    Example(
        "unknown",
        "ALTER TABLE payment SET UNLOGGED;",
        "ALTER TABLE payment ALTER remarks SET STATISTICS 500;",
    ),
)
