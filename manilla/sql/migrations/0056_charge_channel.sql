-- What the customer chose to pay with: card, bank transfer or USSD.

-- Null: the customer chose a gateway, and decides on its page.
ALTER TABLE charge ADD channel text;
