"""The pack finds each change of the schema, of privileges and of settings."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manilla.kit.database.connections import Connection, Database
from manilla.kit.embedded.postgres import APPLICATION, OWNER, SUPERUSER, Cluster
from manilla.ledger import invariants
from manilla.proofs import catalog
from manilla.proofs.access import ACCESS
from manilla.settings import Settings
from tests.support.databases import database
from tests.support.rolled_back import rolled_back
from tools.catalog import text

SETTINGS, PRIVILEGES = (rule.name for rule in ACCESS)
NAME = "catalog"

HOLD = """
    CREATE SCHEMA shadow;
    CREATE FUNCTION shadow.hold_of_outgoing() RETURNS text LANGUAGE sql AS 'SELECT NULL::text'"""
APPEND_ONLY = "CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON posting"
REFUSE = "FOR EACH STATEMENT {} EXECUTE FUNCTION refuse_to_rewrite_the_books()"
NON_NEGATIVE = "ALTER TABLE wallet DROP CONSTRAINT wallet_balance_minor_check"
NOBODY = "CREATE ROLE nobody_else"

# Statements of a superuser, with an object that is found.
CHANGES = {
    "function_of_another_schema": (HOLD, "shadow.hold_of_outgoing()"),
    "table_of_another_schema": ("CREATE SCHEMA s; CREATE TABLE s.payout (id int)", "s.payout"),
    "view_of_another_schema": ("CREATE SCHEMA s; CREATE VIEW s.payout AS SELECT 1", "s.payout"),
    "schema_that_looks_temporary": (
        "CREATE SCHEMA pg; CREATE FUNCTION pg.now() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "pg.now()",
    ),
    "function_of_an_extension": (
        f"""CREATE SCHEMA extra; CREATE EXTENSION citext SCHEMA extra; {HOLD};
            ALTER EXTENSION citext ADD FUNCTION shadow.hold_of_outgoing()""",
        "shadow.hold_of_outgoing()",
    ),
    "extension_in_our_schema": ("CREATE EXTENSION citext", "public.citext"),
    "function_of_postgresql": (
        """CREATE FUNCTION pg_catalog.hold_of_outgoing() RETURNS text LANGUAGE sql
           AS 'SELECT NULL::text'""",
        "hold_of_outgoing()",
    ),
    "replaced_function_of_postgresql": (
        """CREATE OR REPLACE FUNCTION pg_catalog.lpad(text, integer) RETURNS text
           LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS 'SELECT $1'""",
        "functions that are not in C",
    ),
    "replaced_operator_of_postgresql": (
        """CREATE OR REPLACE FUNCTION pg_catalog.int8eq(bigint, bigint) RETURNS boolean
           LANGUAGE internal IMMUTABLE STRICT AS 'int8ne'""",
        "functions in C",
    ),
    "redirected_operator_of_postgresql": (
        """UPDATE pg_operator SET oprcode = 'int8ne'::regproc
            WHERE oid = '=(int8,int8)'::regoperator""",
        "operators",
    ),
    "cast_that_became_implicit": (
        """UPDATE pg_cast SET castcontext = 'i'
            WHERE castsource = 'bigint'::regtype AND casttarget = 'integer'::regtype""",
        "casts",
    ),
    "aggregate_of_postgresql": (
        """UPDATE pg_aggregate SET aggtransfn = 'int8mul'::regproc
            WHERE aggfnoid = 'sum(bigint)'::regprocedure""",
        "aggregates",
    ),
    "ignored_triggers": (
        "UPDATE pg_class SET relhastriggers = false WHERE oid = 'posting'::regclass",
        "public.posting",
    ),
    "ignored_checks": (
        "UPDATE pg_class SET relchecks = 0 WHERE oid = 'wallet'::regclass",
        "public.wallet",
    ),
    "ignored_indexes": (
        "UPDATE pg_class SET relhasindex = false WHERE oid = 'payout'::regclass",
        "public.payout",
    ),
    "function_with_a_closer_type": (
        "CREATE FUNCTION length(varchar) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "public.length(character varying)",
    ),
    "function_with_another_option": (
        "ALTER FUNCTION outcomes_write SET session_replication_role = replica",
        "public.outcomes_write",
    ),
    "function_of_everybody": (
        "GRANT EXECUTE ON FUNCTION months_drop TO PUBLIC",
        "public.months_drop",
    ),
    "volatile_function": ("ALTER FUNCTION lives_elsewhere VOLATILE", "public.lives_elsewhere"),
    "dropped_function": ("DROP FUNCTION payout_deliver", "public.payout_deliver"),
    "aggregate": (
        "CREATE AGGREGATE sum(varchar) (SFUNC = pg_catalog.textcat, STYPE = text)",
        "public.sum(character varying)",
    ),
    "operator": (
        """CREATE FUNCTION differs(varchar, text) RETURNS boolean LANGUAGE sql AS 'SELECT $1 <> $2';
           CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = text, FUNCTION = differs)""",
        "public.=",
    ),
    "cast": (
        """CREATE FUNCTION as_number(text) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';
           CREATE CAST (text AS bigint) WITH FUNCTION as_number(text) AS IMPLICIT""",
        "(pg_catalog.text AS bigint)",
    ),
    "event_trigger": (
        """CREATE FUNCTION on_login() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
           CREATE EVENT TRIGGER on_login ON login EXECUTE FUNCTION on_login()""",
        "on_login",
    ),
    "trigger_with_a_condition": (
        f"{APPEND_ONLY} {REFUSE.format('WHEN (1 = 2)')}",
        "public.posting.append_only",
    ),
    "trigger_with_another_function": (
        f"""CREATE FUNCTION accept() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
            {APPEND_ONLY} FOR EACH STATEMENT EXECUTE FUNCTION accept()""",
        "public.posting.append_only",
    ),
    "trigger_with_other_columns": (
        """CREATE OR REPLACE TRIGGER as_accepted BEFORE UPDATE OF trx_id ON payout
           FOR EACH ROW EXECUTE FUNCTION refuse_to_change_what_was_accepted()""",
        "public.payout.as_accepted",
    ),
    "disabled_trigger": (
        "ALTER TABLE posting DISABLE TRIGGER append_only",
        "public.posting.append_only",
    ),
    "trigger_of_replication": (
        "ALTER TABLE posting ENABLE REPLICA TRIGGER append_only",
        "public.posting.append_only",
    ),
    "trigger_without_a_name_of_ours": (
        """CREATE TRIGGER later AFTER INSERT ON entry
           FOR EACH STATEMENT EXECUTE FUNCTION merchant_fence()""",
        "public.entry.later",
    ),
    "trigger_that_looks_like_a_fence": (
        """CREATE TRIGGER merchant_fence BEFORE INSERT OR UPDATE ON payout
           FOR EACH ROW WHEN (NEW.merchant_id > 0) EXECUTE FUNCTION merchant_fence()""",
        "public.payout.merchant_fence",
    ),
    "triggers_of_a_partition": (
        """CREATE TRIGGER any_row BEFORE INSERT ON api_request_first
           FOR EACH ROW EXECUTE FUNCTION merchant_fence()""",
        "public.api_request_first.any_row",
    ),
    "disabled_foreign_keys": ("ALTER TABLE credential DISABLE TRIGGER ALL", "RI_ConstraintTrigger"),
    "dropped_check": (NON_NEGATIVE, "public.wallet.wallet_balance_minor_check"),
    "weaker_check": (
        f"{NON_NEGATIVE}; ALTER TABLE wallet ADD CONSTRAINT wallet_balance_minor_check"
        " CHECK (balance_minor >= -1000000)",
        "public.wallet.wallet_balance_minor_check",
    ),
    "check_that_is_not_enforced": (
        f"{NON_NEGATIVE}; ALTER TABLE wallet ADD CONSTRAINT wallet_balance_minor_check"
        " CHECK (balance_minor >= 0) NOT ENFORCED",
        "public.wallet.wallet_balance_minor_check",
    ),
    "check_that_is_not_validated": (
        f"{NON_NEGATIVE}; ALTER TABLE wallet ADD CONSTRAINT wallet_balance_minor_check"
        " CHECK (balance_minor >= 0) NOT VALID",
        "public.wallet.wallet_balance_minor_check",
    ),
    "dropped_key": ("ALTER TABLE payout DROP CONSTRAINT payout_pkey CASCADE", "payout_pkey"),
    "dropped_unique_index": ("DROP INDEX payout_attempt_alive", "public.payout_attempt_alive"),
    "invalid_index": (
        """UPDATE pg_index SET indisvalid = false
            WHERE indexrelid = 'payout_attempt_alive'::regclass""",
        "public.payout_attempt_alive",
    ),
    "nullable_column": (
        "ALTER TABLE entry ALTER amount_minor DROP NOT NULL",
        "public.entry.amount_minor",
    ),
    "changed_default": (
        "ALTER TABLE posting ALTER posted_at SET DEFAULT '2020-01-01'",
        "public.posting.posted_at",
    ),
    "changed_type": ("ALTER TABLE merchant ALTER name TYPE varchar(200)", "public.merchant.name"),
    "generated_column": (
        """ALTER TABLE payout DROP provider_reference CASCADE;
           ALTER TABLE payout ADD provider_reference text GENERATED ALWAYS AS ('x') STORED""",
        "public.payout.provider_reference",
    ),
    "additional_column": ("ALTER TABLE payout ADD really text", "public.payout.really"),
    "domain_without_its_rule": (
        "ALTER DOMAIN currency DROP CONSTRAINT currency_check",
        "public.currency",
    ),
    "domain_with_a_default": ("ALTER DOMAIN currency SET DEFAULT 'USD'", "public.currency"),
    "enumeration": ("CREATE TYPE mood AS ENUM ('good')", "public.mood"),
    "rule": ("CREATE RULE quiet AS ON DELETE TO audit DO INSTEAD NOTHING", "public.audit.quiet"),
    "row_filter": (
        "CREATE POLICY hide ON payout USING (false); ALTER TABLE payout ENABLE ROW LEVEL SECURITY",
        "public.payout",
    ),
    "table_that_became_a_view": (
        """ALTER TABLE audit RENAME TO audit_kept; CREATE VIEW audit AS TABLE audit_kept;
           CREATE TRIGGER instead INSTEAD OF INSERT ON audit
               FOR EACH ROW EXECUTE FUNCTION merchant_fence()""",
        "public.audit",
    ),
    "table_with_a_child": (
        "CREATE SCHEMA s; CREATE TABLE s.more () INHERITS (public.audit)",
        "s.more",
    ),
    "table_without_wal": ("ALTER TABLE audit SET UNLOGGED", "public.audit"),
    "table_of_another_schema_now": (
        "CREATE SCHEMA s; ALTER TABLE audit SET SCHEMA s",
        "public.audit",
    ),
    "sequence_that_starts_again": (
        "ALTER SEQUENCE posting_id_seq CYCLE",
        "public.posting_id_seq",
    ),
}
# `make test` makes these changes together, and `make test-all` makes each change alone.
TOGETHER = (
    *("function_of_an_extension", "function_of_postgresql", "operator", "event_trigger"),
    *("trigger_with_a_condition", "disabled_foreign_keys", "check_that_is_not_enforced"),
    *("invalid_index", "changed_default", "domain_without_its_rule", "rule", "row_filter"),
    *("table_with_a_child", "redirected_operator_of_postgresql", "dropped_function"),
)
# Statements of a superuser, with the rule that has a finding.
ACCESSES = {
    "search_path_of_the_database": (
        f"ALTER DATABASE {NAME} SET search_path = shadow, public",
        SETTINGS,
    ),
    "search_path_of_the_role": (f"ALTER ROLE {APPLICATION} SET search_path = shadow", SETTINGS),
    "search_path_of_the_role_in_the_database": (
        f"ALTER ROLE {OWNER} IN DATABASE {NAME} SET search_path = shadow",
        SETTINGS,
    ),
    "search_path_of_all_roles": ("ALTER ROLE ALL SET search_path = shadow, public", SETTINGS),
    "role_without_triggers": (
        f"ALTER ROLE {APPLICATION} SET session_replication_role = replica",
        SETTINGS,
    ),
    "role_that_may_disable_triggers": (
        f"GRANT SET ON PARAMETER session_replication_role TO {APPLICATION}",
        SETTINGS,
    ),
    "database_without_triggers": (
        f"ALTER DATABASE {NAME} SET session_replication_role = replica",
        SETTINGS,
    ),
    "commits_that_are_not_durable": (
        f"ALTER DATABASE {NAME} SET synchronous_commit = off",
        SETTINGS,
    ),
    "another_role": (f"ALTER ROLE {APPLICATION} SET role = pg_monitor", SETTINGS),
    "right_to_change_the_ledger": (f"GRANT UPDATE ON entry TO {APPLICATION}", PRIVILEGES),
    "right_to_change_a_fixed_column": (
        f"GRANT UPDATE (beneficiary) ON payout_account TO {APPLICATION}",
        PRIVILEGES,
    ),
    "right_of_everybody": ("GRANT DELETE ON payout TO PUBLIC", PRIVILEGES),
    "right_to_create_triggers": (f"GRANT TRIGGER ON payout TO {APPLICATION}", PRIVILEGES),
    "right_to_set_a_sequence": (
        f"GRANT UPDATE ON SEQUENCE posting_id_seq TO {APPLICATION}",
        PRIVILEGES,
    ),
    "right_to_create_functions": (f"GRANT CREATE ON SCHEMA public TO {APPLICATION}", PRIVILEGES),
    "application_that_acts_as_owner": (f"GRANT {OWNER} TO {APPLICATION}", PRIVILEGES),
    "application_that_writes_everything": (
        f"GRANT pg_write_all_data TO {APPLICATION}",
        PRIVILEGES,
    ),
    "application_that_is_superuser": (f"ALTER ROLE {APPLICATION} SUPERUSER", PRIVILEGES),
    "function_of_another_owner": (
        f"{NOBODY}; ALTER FUNCTION outcomes_write OWNER TO nobody_else",
        PRIVILEGES,
    ),
    "schema_of_the_application": (f"ALTER SCHEMA public OWNER TO {APPLICATION}", PRIVILEGES),
    "database_of_the_application": (f"ALTER DATABASE {NAME} OWNER TO {APPLICATION}", PRIVILEGES),
    "right_to_create_schemas": (f"GRANT CREATE ON DATABASE {NAME} TO {APPLICATION}", PRIVILEGES),
    "another_role_that_writes": (f"{NOBODY}; GRANT INSERT ON posting TO nobody_else", PRIVILEGES),
    "another_role_that_deletes_months": (
        f"{NOBODY}; GRANT EXECUTE ON FUNCTION months_drop TO nobody_else",
        PRIVILEGES,
    ),
    "table_of_another_owner": (f"{NOBODY}; ALTER TABLE audit OWNER TO nobody_else", PRIVILEGES),
}
HARMLESS = (
    """
    CREATE SCHEMA extra; CREATE EXTENSION pg_stat_statements SCHEMA extra;
    CREATE EXTENSION tablefunc SCHEMA extra""",
    f"ALTER ROLE {APPLICATION} SET statement_timeout = '2s'",
    f"ALTER ROLE {APPLICATION} SET search_path = public, pg_temp",
    f"ALTER DATABASE {NAME} SET log_min_duration_statement = '1s'",
    f"{NOBODY}; GRANT pg_read_all_data TO nobody_else; GRANT SELECT ON entry TO PUBLIC",
    f"CREATE ROLE next_password; GRANT {APPLICATION} TO next_password",
    "ALTER TABLE entry SET (autovacuum_vacuum_scale_factor = 0.01)",
    "SELECT months_create(5)",
    "CREATE TEMP TABLE payout_kept AS TABLE payout",
    # A merchant is being moved to another cell.
    """
    INSERT INTO cell (name, base_url, first_merchant, last_merchant)
    VALUES ('b', 'https://b.example', 1000, 2000);
    INSERT INTO merchant_fence (merchant_id, cell, state) VALUES (7, 'b', 'copying');
    SELECT merchant_fence_on('payout'), merchant_fence_on('merchant')""",
)


@pytest.fixture(scope="module")
async def superuser(cluster: Cluster, settings: Settings) -> AsyncIterator[Database]:
    await database(cluster, settings, NAME, is_migrated=True)
    db = await Database.open(cluster.url(SUPERUSER, NAME), size=1, name="tests")
    yield db
    await db.close()


async def _problems(connection: Connection) -> list[str]:
    return [each.name for each in await catalog.compare(connection) if each.problem]


async def _broken(connection: Connection) -> list[str]:
    return [rule.name for rule in ACCESS if (await invariants.find(connection, rule)).count]


async def test_the_file_is_the_catalog_of_a_new_database(superuser: Database) -> None:
    """If this test fails, run `python -m tools.catalog`."""
    async with superuser.read_only() as connection:
        assert text(await catalog.read(connection)) == catalog.EXPECTED.read_text()


async def test_all_changed_objects_are_found(superuser: Database) -> None:
    changes = [CHANGES[name] for name in TOGETHER]
    async with rolled_back(superuser, "; ".join(sql for sql, _ in changes)) as connection:
        problems = await _problems(connection)
    assert [found for _, found in changes if not any(found in name for name in problems)] == []


@pytest.mark.long
@pytest.mark.parametrize(("sql", "found"), CHANGES.values(), ids=CHANGES)
async def test_a_changed_object_is_found(superuser: Database, sql: str, found: str) -> None:
    async with rolled_back(superuser, sql) as connection:
        assert any(found in name for name in await _problems(connection))


@pytest.mark.parametrize(("sql", "rule"), ACCESSES.values(), ids=ACCESSES)
async def test_changed_access_is_found(superuser: Database, sql: str, rule: str) -> None:
    async with rolled_back(superuser, sql) as connection:
        assert await _broken(connection) == [rule]


async def test_what_operators_may_do_is_no_finding(superuser: Database) -> None:
    async with rolled_back(superuser, "; ".join(HARMLESS)) as connection:
        assert (await _problems(connection), await _broken(connection)) == ([], [])


@pytest.mark.long
async def test_a_restored_database_has_the_same_catalog(
    cluster: Cluster, superuser: Database
) -> None:
    """PostgreSQL stores some expressions in another form when it reads their definition again."""
    async with superuser.connection() as connection:
        await connection.execute("DROP DATABASE IF EXISTS restored")
        await connection.execute(f"CREATE DATABASE restored OWNER {OWNER} TEMPLATE template0")
    dump, restore = cluster.binaries / "pg_dump", cluster.binaries / "psql"
    source, target = (cluster.url(SUPERUSER, name) for name in (NAME, "restored"))
    dumped = await _run([dump, source])
    await _run([restore, target, "-q", "-v", "ON_ERROR_STOP=1"], dumped)
    db = await Database.open(target, size=1, name="tests")
    try:
        async with db.read_only() as connection:
            assert (await _problems(connection), await _broken(connection)) == ([], [])
    finally:
        await db.close()


async def _run(words: list[str | Path], text: str = "") -> str:
    def run() -> str:
        done = subprocess.run(words, input=text, capture_output=True, check=True, text=True)
        return done.stdout

    return await asyncio.to_thread(run)
