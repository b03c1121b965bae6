"""Rules about who can change the ledger, and about settings that change what SQL statements do."""

from manilla.kit.database.connector import SEARCH_PATH
from manilla.ledger.invariants import Invariant
from manilla.sql.rights import FIXED, RIGHTS

# A role or a database may have these settings. Any other setting is reported as a finding.
HARMLESS = (
    f"search_path={SEARCH_PATH}$",
    "(statement|lock|transaction|idle_in_transaction_session|idle_session)_timeout=",
    *("timezone=", "datestyle=", "application_name=", "log_", "auto_explain\\.", "pgaudit\\."),
    *("(maintenance_)?work_mem=", "jit=", "enable_", "plan_cache_mode="),
    *("max_parallel_", "(random|seq)_page_cost=", "effective_"),
)
# The values that these settings must have in every session.
SERVER_SETTINGS = {
    "array_nulls": "on",
    "ignore_checksum_failure": "off",
    "ignore_system_indexes": "off",
    "session_replication_role": "origin",
    "transform_null_equals": "off",
    "zero_damaged_pages": "off",
}

_OWNER = "(SELECT relowner FROM pg_class WHERE oid = 'public.entry'::regclass)"
_THIS = "(SELECT oid FROM pg_database WHERE datname = current_database())"


def _values(pairs: list[tuple[str, str]]) -> str:
    return ", ".join(f"('{first}', '{second}')" for first, second in pairs)


_TABLE_RIGHTS = [
    (table, right)
    for table, text in RIGHTS.items()
    for right in text.split(", ")
    if not (right == "UPDATE" and table in FIXED)
]
_FIXED_COLUMNS = [(table, column) for table, columns in FIXED.items() for column in columns]

ACCESS: tuple[Invariant, ...] = (
    Invariant(
        "settings_do_not_change_statements",
        "No setting of the server, the database or a role changes what SQL statements do.",
        f"""
        SELECT coalesce('role ' || r.rolname, 'database ' || d.datname, 'all roles') AS of,
               split_part(c.setting, '=', 1) AS setting,
               substr(c.setting, strpos(c.setting, '=') + 1) AS value
          FROM pg_db_role_setting s
         CROSS JOIN unnest(s.setconfig) AS c (setting)
          LEFT JOIN pg_roles r ON r.oid = s.setrole
          LEFT JOIN pg_database d ON d.oid = s.setdatabase
         WHERE s.setdatabase IN (0, {_THIS})
           AND (s.setrole IN (0, {_OWNER}) OR NOT r.rolsuper AND (
                    has_table_privilege(r.oid, 'public.entry', 'INSERT')
                    OR pg_has_role(r.oid, {_OWNER}, 'MEMBER')))
           AND c.setting !~* '^({"|".join(HARMLESS)})'
         UNION ALL
        SELECT 'server', p.name, p.reset_val
          FROM pg_settings p
          JOIN (VALUES {_values(list(SERVER_SETTINGS.items()))}) AS e (name, value) USING (name)
         WHERE p.reset_val <> e.value
         UNION ALL
        SELECT 'right of ' || a.grantee::regrole, p.parname, a.privilege_type
          FROM pg_parameter_acl p, aclexplode(p.paracl) AS a
         WHERE p.parname IN ({", ".join(f"'{name}'" for name in SERVER_SETTINGS)})
           AND a.grantee <> 10""",  # the role that created the cluster
    ),
    Invariant(
        "roles_have_only_their_privileges",
        "Only the application's role and the owner of the tables can write. The application's role "
        "has only the privileges that it needs, and all objects have the same owner.",
        f"""
        WITH owner AS (SELECT {_OWNER} AS oid),
        ours AS (SELECT c.* FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace),
        -- The application is the role that can write to most tables.
        application AS (
            SELECT a.grantee AS oid
              FROM ours c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
             WHERE a.grantee <> c.relowner AND a.privilege_type IN ('INSERT', 'UPDATE')
             GROUP BY a.grantee ORDER BY count(*) DESC LIMIT 1)
        SELECT c.oid::regclass::text AS object, a.grantee::regrole::text AS role,
               a.privilege_type AS privilege
          FROM ours c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
         WHERE a.grantee <> c.relowner AND a.privilege_type NOT IN ('SELECT', 'USAGE')
           AND (a.grantee <> (SELECT oid FROM application)
                OR (c.relname, a.privilege_type) NOT IN (VALUES {_values(_TABLE_RIGHTS)}))
         UNION ALL
        SELECT c.oid::regclass || '.' || t.attname, a.grantee::regrole::text, a.privilege_type
          FROM ours c
          JOIN pg_attribute t ON t.attrelid = c.oid
         CROSS JOIN LATERAL aclexplode(t.attacl) AS a
         WHERE a.grantee <> c.relowner AND a.privilege_type <> 'SELECT'
           AND NOT (a.privilege_type = 'UPDATE' AND a.grantee = (SELECT oid FROM application)
                    AND c.relname IN ({", ".join(f"'{table}'" for table in FIXED)})
                    AND (c.relname, t.attname) NOT IN (VALUES {_values(_FIXED_COLUMNS)}))
         UNION ALL
        SELECT 'schema public', a.grantee::regrole::text, a.privilege_type
          FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) AS a
         WHERE n.nspname = 'public' AND a.privilege_type = 'CREATE'
           AND a.grantee NOT IN (n.nspowner, (SELECT oid FROM owner))
         UNION ALL
        SELECT o.name, o.owner::regrole::text, 'OWNER'
          FROM (SELECT c.oid::regclass::text, c.relowner FROM ours c
                 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
                 UNION ALL
                SELECT p.oid::regprocedure::text, p.proowner FROM pg_proc p
                 WHERE p.pronamespace = 'public'::regnamespace
                 UNION ALL
                SELECT t.typname::text, t.typowner FROM pg_type t
                 WHERE t.typnamespace = 'public'::regnamespace AND t.typtype IN ('d', 'e')
               ) AS o (name, owner)
         WHERE o.owner <> (SELECT oid FROM owner)
         UNION ALL
        SELECT p.oid::regprocedure::text, a.grantee::regrole::text, a.privilege_type
          FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) AS a
         WHERE p.pronamespace = 'public'::regnamespace
           AND a.grantee NOT IN (0, p.proowner)
           AND a.grantee IS DISTINCT FROM (SELECT oid FROM application)
         UNION ALL
        SELECT 'database', a.grantee::regrole::text, a.privilege_type
          FROM pg_database d CROSS JOIN LATERAL aclexplode(d.datacl) AS a
         WHERE d.datname = current_database() AND a.privilege_type = 'CREATE'
           AND a.grantee IN (0, (SELECT oid FROM application))
         UNION ALL
        SELECT o.name, o.owner::regrole::text, 'OWNER'
          FROM (SELECT 'schema public', nspowner FROM pg_namespace WHERE nspname = 'public'
                 UNION ALL
                SELECT 'database', datdba FROM pg_database WHERE datname = current_database()
               ) AS o (name, owner)
         WHERE o.owner = (SELECT oid FROM application)
         UNION ALL
        SELECT 'the role itself', r.rolname::text,
               concat_ws(', ', CASE WHEN r.rolsuper THEN 'SUPERUSER' END,
                   CASE WHEN r.rolreplication THEN 'REPLICATION' END,
                   CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END,
                   CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END,
                   CASE WHEN pg_has_role(r.oid, o.oid, 'MEMBER') THEN 'member of the owner' END,
                   CASE WHEN pg_has_role(r.oid, 'pg_write_all_data', 'MEMBER')
                        THEN 'member of pg_write_all_data' END)
          FROM owner o, pg_roles r
         WHERE r.oid = (SELECT oid FROM application)
           AND (r.rolsuper OR r.rolreplication OR r.rolbypassrls OR r.rolcreaterole
                OR pg_has_role(r.oid, o.oid, 'MEMBER')
                OR pg_has_role(r.oid, 'pg_write_all_data', 'MEMBER'))""",
    ),
)
