-- How the transfers into a customer's account are divided: a rule's id, or the rule. Null: by the
-- merchant's default rule.
ALTER TABLE customer_account ADD split jsonb;
