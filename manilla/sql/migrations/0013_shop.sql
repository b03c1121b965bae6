-- Orders of the demo shop; empty outside of development mode.

-- In the database, because any process may be notified of an order that another one created.
CREATE UNLOGGED TABLE shop_order (
    reference   text PRIMARY KEY,
    article     text NOT NULL,
    trx_id      text NOT NULL,
    payment_url text NOT NULL,
    made_at     timestamptz NOT NULL DEFAULT now()
);
CREATE UNLOGGED TABLE shop_news (
    reference text NOT NULL,
    id        text NOT NULL,
    status    text NOT NULL,
    message   text NOT NULL,
    body      text NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (reference, id)
);
