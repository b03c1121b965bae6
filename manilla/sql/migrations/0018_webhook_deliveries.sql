-- How often a webhook was delivered, and when its status query is due.

ALTER TABLE webhook
    ADD deliveries       integer NOT NULL DEFAULT 1,
    ADD last_received_at timestamptz NOT NULL DEFAULT now(),
    ADD query_due_at     timestamptz;  -- null: about another provider's transaction, so ignored
