-- Refunds by administrators, refunds including commission, and when a refund was first sent.

ALTER TABLE refund
      ADD on_behalf boolean NOT NULL DEFAULT false,  -- ordered by an administrator
      ADD commission_minor bigint NOT NULL DEFAULT 0  -- the part of the amount the platform bears
          CHECK (commission_minor >= 0 AND commission_minor < amount_minor),
      ADD first_sent_at timestamptz;
