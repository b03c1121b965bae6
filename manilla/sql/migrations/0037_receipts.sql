-- Receipts that customers get by email.

-- Whether the merchant's customers get a receipt.
ALTER TABLE merchant ADD sends_receipts boolean NOT NULL DEFAULT false;
