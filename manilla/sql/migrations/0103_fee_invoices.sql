-- Monthly fee invoices to merchants, and the liabilities from taxes.

-- The last number of each series. A legal entity has one series, which is named by its prefix.
CREATE TABLE invoice_series (
    prefix text PRIMARY KEY,
    serial bigint NOT NULL DEFAULT 0 CHECK (serial >= 0)
);

-- Who a merchant's invoices are addressed to, if it differs from the verified business.
CREATE TABLE invoice_recipient (
    merchant_id bigint PRIMARY KEY,
    name        text NOT NULL,
    address     text NOT NULL,
    tax_id      text NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now()
);

-- The months for which all invoices were issued.
CREATE TABLE invoice_month (
    month     date PRIMARY KEY CHECK (extract(day FROM month) = 1),
    issued_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE fee_invoice (
    merchant_id         bigint NOT NULL,
    number              text NOT NULL,
    prefix              text NOT NULL,
    serial              bigint NOT NULL CHECK (serial > 0),
    month               date NOT NULL CHECK (extract(day FROM month) = 1),
    currency            currency NOT NULL,
    revision            integer NOT NULL CHECK (revision > 0),  -- of the month: 1 is the invoice
    amount_minor        bigint NOT NULL,  -- fees and taxes; below zero: a credit note
    lines               jsonb NOT NULL,
    supplier            jsonb NOT NULL,
    customer            jsonb NOT NULL,
    corrects            text,  -- the number of the invoice that a credit note cancels
    reason              text NOT NULL,
    issued_by           text NOT NULL,
    issued_at           timestamptz NOT NULL DEFAULT now(),
    -- What the tax authority's access point returned.
    authority_reference text,
    authority_qr        text,
    PRIMARY KEY (merchant_id, number),
    UNIQUE (merchant_id, month, currency, revision)
);
CREATE INDEX fee_invoice_number ON fee_invoice (number);
CREATE INDEX fee_invoice_time ON fee_invoice (issued_at, number);

CREATE TRIGGER as_issued
    BEFORE UPDATE OF merchant_id, number, prefix, serial, month, currency, revision, amount_minor,
                     lines, supplier, customer, corrects, reason, issued_by, issued_at
    ON fee_invoice FOR EACH ROW
    WHEN (OLD.merchant_id IS DISTINCT FROM NEW.merchant_id
          OR OLD.number IS DISTINCT FROM NEW.number
          OR OLD.prefix IS DISTINCT FROM NEW.prefix
          OR OLD.serial IS DISTINCT FROM NEW.serial
          OR OLD.month IS DISTINCT FROM NEW.month
          OR OLD.currency IS DISTINCT FROM NEW.currency
          OR OLD.revision IS DISTINCT FROM NEW.revision
          OR OLD.amount_minor IS DISTINCT FROM NEW.amount_minor
          OR OLD.lines IS DISTINCT FROM NEW.lines
          OR OLD.supplier IS DISTINCT FROM NEW.supplier
          OR OLD.customer IS DISTINCT FROM NEW.customer
          OR OLD.corrects IS DISTINCT FROM NEW.corrects
          OR OLD.reason IS DISTINCT FROM NEW.reason
          OR OLD.issued_by IS DISTINCT FROM NEW.issued_by
          OR OLD.issued_at IS DISTINCT FROM NEW.issued_at)
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();

-- Sums the liability of a tax, and its entries of a month, without reading other entries.
CREATE INDEX CONCURRENTLY entry_tax ON entry (account, posting_id)
    INCLUDE (merchant_id, environment, currency, amount_minor)
    WHERE starts_with(account, 'tax:');
