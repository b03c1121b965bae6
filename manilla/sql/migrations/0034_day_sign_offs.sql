-- Balances that providers reported, and the sign-offs of days whose statement was imported.

-- The balance that a provider reported first after the end of a day, or else last on that day.
CREATE TABLE reported_balance (
    provider      text NOT NULL,
    currency      currency NOT NULL,
    day           date NOT NULL,  -- in Lagos
    balance_minor bigint NOT NULL,
    ledger_minor  bigint NOT NULL,  -- our ledger's balance at that time
    reported_at   timestamptz NOT NULL,
    PRIMARY KEY (provider, currency, day)
);

-- The figures of a day as an accountant signed them. A day may be signed again.
CREATE TABLE day_sign_off (
    provider              text NOT NULL,
    currency              currency NOT NULL,
    day                   date NOT NULL,
    signed_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    signed_by             text NOT NULL,
    note                  text NOT NULL,
    lines                 bigint NOT NULL,
    lines_minor           bigint NOT NULL,
    open_lines            bigint NOT NULL,
    movements             bigint NOT NULL,
    movements_minor       bigint NOT NULL,
    open_movements        bigint NOT NULL,
    ledger_minor          bigint,
    balance_minor         bigint,
    reported_minor        bigint,
    reported_ledger_minor bigint,
    reported_at           timestamptz,
    PRIMARY KEY (provider, currency, day, signed_at)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON day_sign_off
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();
