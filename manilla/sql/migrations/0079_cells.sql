-- The cells of an operator: this installation, and the others that it knows. An installation without
-- a row with `is_this` is not a cell.
CREATE TABLE cell (
    name             text PRIMARY KEY CHECK (name ~ '^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$'),
    base_url         text,  -- null: this cell's URL is in the settings of its processes
    first_merchant   bigint NOT NULL,  -- the cell gives its new merchants the numbers of this range
    last_merchant    bigint NOT NULL,
    is_this          boolean NOT NULL DEFAULT false,
    token_sealed     bytea,  -- the token with which this cell reads the other cell
    -- The hash of the token with which the other cell reads this one.
    reads_with_hash  bytea UNIQUE,
    added_at         timestamptz NOT NULL DEFAULT now(),
    CHECK (1 <= first_merchant AND first_merchant <= last_merchant),
    CHECK (last_merchant <= 34359738367),  -- seven characters in base 32
    CHECK (is_this = (base_url IS NULL)),
    CHECK (NOT is_this OR (token_sealed IS NULL AND reads_with_hash IS NULL)),
    EXCLUDE USING gist (int8range(first_merchant, last_merchant, '[]') WITH &&)
);
CREATE UNIQUE INDEX cell_this ON cell (is_this) WHERE is_this;

-- The cells of moved merchants, as far as this cell knows them. Every other merchant lives in the
-- cell whose range includes its number. A merchant whose rows are still being copied is not moved.
CREATE TABLE moved_merchant (
    merchant_id bigint PRIMARY KEY,
    cell        text NOT NULL REFERENCES cell,  -- this cell: the merchant was moved here
    moved_at    timestamptz NOT NULL DEFAULT now()
);

INSERT INTO change (topic) VALUES ('cells');

-- Confines the numbers of new merchants to this cell's range. The numbers of the merchants that
-- exist must be within the range.
CREATE FUNCTION cell_confine_merchants() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    next_id bigint;
BEGIN
    LOCK TABLE merchant IN SHARE ROW EXCLUSIVE MODE;
    PERFORM FROM merchant WHERE id NOT BETWEEN NEW.first_merchant AND NEW.last_merchant;
    IF FOUND THEN
        RAISE EXCEPTION 'A merchant has a number outside the range of the cell.'
              USING ERRCODE = 'check_violation', CONSTRAINT = 'cell_contains_merchants';
    END IF;
    SELECT greatest(NEW.first_merchant, max(id) + 1) INTO next_id FROM merchant;
    IF next_id > NEW.last_merchant THEN
        RAISE EXCEPTION 'The range of the cell is used up.'
              USING ERRCODE = 'check_violation', CONSTRAINT = 'cell_contains_merchants';
    END IF;
    EXECUTE format(
        'ALTER TABLE merchant ALTER id SET MINVALUE %s SET MAXVALUE %s SET START %s RESTART %s',
        NEW.first_merchant, NEW.last_merchant, NEW.first_merchant, next_id);
    RETURN NEW;
END $$;
CREATE TRIGGER cell_confine_merchants BEFORE INSERT ON cell
    FOR EACH ROW WHEN (NEW.is_this) EXECUTE FUNCTION cell_confine_merchants();

CREATE FUNCTION cell_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The name and the range of this cell never change.';
END $$;
CREATE TRIGGER cell_keep_range BEFORE UPDATE ON cell FOR EACH ROW
    WHEN ((OLD.is_this OR NEW.is_this)
          AND (OLD.name, OLD.first_merchant, OLD.last_merchant, OLD.is_this)
              <> (NEW.name, NEW.first_merchant, NEW.last_merchant, NEW.is_this))
    EXECUTE FUNCTION cell_refuse_change();
CREATE TRIGGER cell_keep_this BEFORE DELETE ON cell FOR EACH ROW
    WHEN (OLD.is_this) EXECUTE FUNCTION cell_refuse_change();
