-- Settlement plans, and the settlements that follow them.

CREATE TABLE settlement_plan (
    merchant_id   bigint NOT NULL REFERENCES merchant,
    environment   text NOT NULL CHECK (environment IN ('sandbox', 'production')),
    currency      text NOT NULL,
    mode          text NOT NULL CHECK (mode IN ('manual', 'daily', 'weekly', 'above')),
    weekday       integer CHECK (weekday BETWEEN 0 AND 6),
    above_minor   bigint CHECK (above_minor > 0),
    reserve_minor bigint NOT NULL CHECK (reserve_minor >= 0),
    set_by        text NOT NULL,
    set_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, environment, currency)
);

CREATE TABLE settlement (
    merchant_id  bigint NOT NULL REFERENCES merchant,
    id           bigint GENERATED ALWAYS AS IDENTITY,
    environment  text NOT NULL CHECK (environment IN ('sandbox', 'production')),
    currency     text NOT NULL,
    day          date NOT NULL,
    attempt      integer NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    ordered_by   text NOT NULL,
    state        text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'paid', 'failed')),
    trx_id       text,
    remark       text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,
    PRIMARY KEY (merchant_id, id)
);

-- At most one settlement of a balance is open.
CREATE UNIQUE INDEX settlement_open
    ON settlement (merchant_id, environment, currency) WHERE state = 'open';
-- Each attempt of a day is made once.
CREATE UNIQUE INDEX settlement_attempt
    ON settlement (merchant_id, environment, currency, day, attempt);
