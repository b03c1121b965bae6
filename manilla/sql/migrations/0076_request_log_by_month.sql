-- Partitions the request log by month. A whole month is then removed without deleting its rows.

ALTER TABLE api_request RENAME TO api_request_first;
ALTER INDEX api_request_pkey RENAME TO api_request_first_pkey;
ALTER INDEX api_request_age RENAME TO api_request_first_age;

CREATE TABLE api_request (
    LIKE api_request_first INCLUDING DEFAULTS,
    PRIMARY KEY (merchant_id, at, request_id)
) PARTITION BY RANGE (at);
CREATE INDEX api_request_age ON api_request USING brin (at) WITH (autosummarize = on);

-- Attaches the existing table with the range of its constraint. The running version continues with
-- the new table of the same name, so the new table gets the same privileges.
CREATE FUNCTION months_attach(parent text, first text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    range_end text := substring(
        (SELECT pg_get_constraintdef(oid) FROM pg_constraint
          WHERE conrelid = first::regclass AND conname = parent || '_months') FROM '''([^'']+)''');
    privilege record;
BEGIN
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)',
        parent, first, range_end);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', first, parent || '_months');
    FOR privilege IN
        SELECT a.privilege_type, a.grantee::regrole AS grantee
          FROM pg_class c, aclexplode(c.relacl) a
         WHERE c.oid = first::regclass AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT %s ON %I TO %s', privilege.privilege_type, parent, privilege.grantee);
    END LOOP;
END $$;

SELECT months_attach('api_request', 'api_request_first');
