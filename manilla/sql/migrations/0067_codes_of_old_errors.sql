-- In a transaction of its own: the new column's lock on the table is released.

UPDATE delivery_attempt SET error_code = 'not_reached'
 WHERE error LIKE '%not a public address, or a name that is not known';
