"""Compares the database's catalog with the catalog that the migrations of this version create.

`manilla/sql/catalog.tsv` has one line for each object: its type, its name and its definition. A
changed, missing, additional or disabled object has another line, whatever kind of object it is. The
file is generated from a migrated database by `python -m tools.catalog`.
"""

import hashlib
import re
from collections.abc import Iterable

import msgspec

from manilla.kit.database.connections import Connection
from manilla.kit.database.connector import SEARCH_PATH
from manilla.sql.migrate import FOLDER

EXPECTED = FOLDER / "catalog.tsv"

# PostgreSQL gives lower numbers to the objects that exist in every database.
_FIRST_OBJECT = 16384

# With these settings, the definitions contain the schema of each name, and are always the same.
SETTINGS = "SET LOCAL search_path = pg_catalog; SET LOCAL quote_all_identifiers = off"

# These kinds of objects can change what our statements do. The migrations create none of them.
_NEVER_CREATED = " UNION ALL ".join(
    f"SELECT '{catalog}'::regclass, oid, {schema} FROM {catalog} WHERE oid >= {_FIRST_OBJECT}"
    for catalog, schema in (
        ("pg_am", "0"),
        ("pg_amop", "0"),
        ("pg_amproc", "0"),
        ("pg_cast", "0"),
        ("pg_conversion", "connamespace"),
        ("pg_event_trigger", "0"),
        ("pg_foreign_data_wrapper", "0"),
        ("pg_foreign_server", "0"),
        ("pg_language", "0"),
        ("pg_opclass", "opcnamespace"),
        ("pg_operator", "oprnamespace"),
        ("pg_opfamily", "opfnamespace"),
        ("pg_policy", "0"),
        ("pg_transform", "0"),
        ("pg_ts_config", "cfgnamespace"),
        ("pg_ts_dict", "dictnamespace"),
        ("pg_ts_parser", "prsnamespace"),
        ("pg_ts_template", "tmplnamespace"),
    )
)

# What PostgreSQL itself defines is the same in every database of a major version.
_BUILT_IN = rf"""
        SELECT b.name, string_agg(b.line, E'\n' ORDER BY b.line COLLATE "C")
          FROM (
            SELECT 'functions that are not in C', pg_get_functiondef(p.oid)
              FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
             WHERE p.oid < {_FIRST_OBJECT} AND l.lanname NOT IN ('c', 'internal')
             UNION ALL
            SELECT 'functions in C', concat_ws(' ', p.oid::regprocedure, p.prosrc, p.probin,
                   p.prokind, p.provolatile, p.proisstrict, p.prosecdef, p.proconfig,
                   p.prosupport, p.prorettype::regtype)
              FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
             WHERE p.oid < {_FIRST_OBJECT} AND l.lanname IN ('c', 'internal')
             UNION ALL
            SELECT 'operators', concat_ws(' ', o.oid::regoperator, o.oprcode,
                   o.oprcom::regoperator, o.oprnegate::regoperator, o.oprresult::regtype)
              FROM pg_operator o WHERE o.oid < {_FIRST_OBJECT}
             UNION ALL
            SELECT 'casts', concat_ws(' ', c.castsource::regtype, c.casttarget::regtype,
                   c.castfunc::regprocedure, c.castcontext, c.castmethod)
              FROM pg_cast c WHERE c.oid < {_FIRST_OBJECT}
             UNION ALL
            SELECT 'aggregates', concat_ws(' ', a.aggfnoid::regprocedure, a.aggtransfn,
                   a.aggfinalfn, a.aggmtransfn, a.aggminvtransfn, a.agginitval)
              FROM pg_aggregate a WHERE a.aggfnoid < {_FIRST_OBJECT}
             UNION ALL
            SELECT 'operator classes', concat_ws(' ', f.opfname, m.amopstrategy,
                   m.amopopr::regoperator, i.amname)
              FROM pg_amop m
              JOIN pg_opfamily f ON f.oid = m.amopfamily
              JOIN pg_am i ON i.oid = m.amopmethod
             WHERE m.oid < {_FIRST_OBJECT}
             UNION ALL
            SELECT 'functions of operator classes', concat_ws(' ', f.opfname, i.amname,
                   m.amproclefttype::regtype, m.amprocrighttype::regtype, m.amprocnum,
                   m.amproc::regprocedure)
              FROM pg_amproc m
              JOIN pg_opfamily f ON f.oid = m.amprocfamily
              JOIN pg_am i ON i.oid = f.opfmethod
             WHERE m.oid < {_FIRST_OBJECT}) AS b (name, line)
         GROUP BY b.name"""

# A partition is a part of a table that is partitioned by month. It has no rules, no triggers and no
# row filters. Extensions may have objects in their own schema, except functions that are written in
# SQL or in a procedural language.
OBJECTS = rf"""
    WITH schema AS (
        SELECT oid, nspname::text AS name FROM pg_namespace
         WHERE nspname !~ '^pg_(toast_)?temp_\d+$'),
    ours AS (
        SELECT c.*, c.oid::regclass::text AS name FROM pg_class c
         WHERE c.relnamespace = 'public'::regnamespace),
    object AS (
        SELECT CASE c.relkind WHEN 'c' THEN 'pg_type'::regclass ELSE 'pg_class'::regclass END
               AS class,
               CASE c.relkind WHEN 'c' THEN c.reltype ELSE c.oid END AS oid,
               c.relnamespace AS schema, true AS is_data,
               CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table'
                    WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view'
                    WHEN 'f' THEN 'foreign table' WHEN 'S' THEN 'sequence'
                    ELSE 'composite type' END AS type,
               CASE WHEN is_month THEN parent || ' of a month' ELSE c.oid::regclass::text END
               AS name,
               concat_ws(', ',
                   CASE c.relpersistence WHEN 'u' THEN 'unlogged' WHEN 't' THEN 'temporary' END,
                   'access method ' || nullif(a.amname, 'heap'),
                   CASE WHEN parent IS NOT NULL AND NOT is_month THEN 'inherits ' || parent END,
                   'partition by ' || CASE c.relkind WHEN 'p' THEN pg_get_partkeydef(c.oid) END,
                   CASE WHEN c.relrowsecurity OR c.relforcerowsecurity THEN 'row filters' END,
                   CASE WHEN c.relkind IN ('r', 'p') AND (
                             NOT c.relhasindex AND EXISTS (
                                 SELECT FROM pg_index x WHERE x.indrelid = c.oid)
                             OR NOT c.relhastriggers AND EXISTS (
                                 SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid)
                             OR c.relchecks <> (
                                 SELECT count(*) FROM pg_constraint k
                                  WHERE k.conrelid = c.oid AND k.contype = 'c'))
                        THEN 'ignores its indexes, triggers or constraints' END,
                   'of ' || nullif(c.reloftype, 0)::regtype,
                   CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END,
                   format_type(s.seqtypid, NULL) || ' increment ' || s.seqincrement
                   || CASE WHEN s.seqcycle THEN ' cycle' ELSE '' END) AS definition
          FROM pg_class c
          LEFT JOIN pg_am a ON a.oid = c.relam
          LEFT JOIN pg_sequence s ON s.seqrelid = c.oid
         CROSS JOIN LATERAL (
               SELECT string_agg(i.inhparent::regclass::text, ' ' ORDER BY i.inhseqno) AS parent
                 FROM pg_inherits i WHERE i.inhrelid = c.oid) AS i
         CROSS JOIN LATERAL (
               SELECT c.relispartition AND c.relkind = 'r'
                      AND c.relnamespace = 'public'::regnamespace
                      AND EXISTS (SELECT FROM ours p WHERE p.name = parent) AS is_month) AS m
         WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'c')
         UNION ALL
        SELECT 'pg_attribute'::regclass, c.oid, c.relnamespace, true, 'column',
               c.name || '.' || quote_ident(a.attname),
               concat_ws(' ', format_type(a.atttypid, a.atttypmod),
                   'collate ' || nullif(a.attcollation, t.typcollation)::regcollation,
                   CASE WHEN a.attnotnull THEN 'not null' END,
                   CASE WHEN EXISTS (
                             SELECT FROM pg_constraint n
                              WHERE n.conrelid = c.oid AND n.contype = 'n'
                                AND n.conkey = ARRAY[a.attnum] AND NOT n.convalidated)
                        THEN 'not valid' END,
                   CASE a.attidentity WHEN 'a' THEN 'identity always'
                                      WHEN 'd' THEN 'identity by default' END,
                   CASE a.attgenerated WHEN 's' THEN 'stored' WHEN 'v' THEN 'virtual' END,
                   'default ' || pg_get_expr(d.adbin, d.adrelid))
          FROM ours c
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          JOIN pg_type t ON t.oid = a.atttypid
          LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
         WHERE c.relkind IN ('r', 'p', 'c') AND NOT c.relispartition
         UNION ALL
        SELECT 'pg_class'::regclass, x.indexrelid, c.relnamespace, true, 'index',
               x.indexrelid::regclass::text,
               concat_ws(', ', pg_get_indexdef(x.indexrelid),
                   CASE WHEN x.indisprimary THEN 'primary' END,
                   CASE WHEN NOT x.indimmediate THEN 'deferrable' END,
                   CASE WHEN NOT (x.indisvalid AND x.indisready AND x.indislive)
                        THEN 'invalid' END)
          FROM pg_index x JOIN ours c ON c.oid = x.indrelid WHERE NOT c.relispartition
         UNION ALL
        SELECT 'pg_constraint'::regclass, k.oid, k.connamespace, true, 'constraint',
               coalesce(c.name, k.contypid::regtype::text) || '.' || quote_ident(k.conname),
               pg_get_constraintdef(k.oid)
          FROM pg_constraint k
          LEFT JOIN ours c ON c.oid = k.conrelid
         WHERE (k.conrelid = 0 AND k.connamespace = 'public'::regnamespace)
            OR (k.contype <> 'n' AND NOT c.relispartition)
         UNION ALL
        SELECT 'pg_trigger'::regclass, t.oid, c.relnamespace, true, 'trigger',
               c.name || '.' || quote_ident(t.tgname),
               pg_get_triggerdef(t.oid) || CASE t.tgenabled WHEN 'O' THEN ''
                   WHEN 'D' THEN ', disabled' ELSE ', enabled ' || t.tgenabled::text END
          FROM pg_trigger t JOIN ours c ON c.oid = t.tgrelid
         WHERE NOT t.tgisinternal OR t.tgenabled <> 'O'
         UNION ALL
        SELECT 'pg_rewrite'::regclass, r.oid, c.relnamespace, true, 'rule',
               c.name || '.' || quote_ident(r.rulename),
               pg_get_ruledef(r.oid) || ', enabled ' || r.ev_enabled::text
          FROM pg_rewrite r JOIN ours c ON c.oid = r.ev_class
         WHERE c.relkind NOT IN ('v', 'm')
         UNION ALL
        SELECT 'pg_proc'::regclass, p.oid, p.pronamespace, l.lanname IN ('c', 'internal'),
               'function', p.oid::regprocedure::text,
               CASE WHEN p.prokind = 'a' THEN 'aggregate'
                    WHEN EXISTS (SELECT FROM aclexplode(
                                        coalesce(p.proacl, acldefault('f', p.proowner))) AS a
                                  WHERE a.grantee = 0) THEN pg_get_functiondef(p.oid)
                    ELSE pg_get_functiondef(p.oid) || ' not public' END
          FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
         WHERE p.oid >= {_FIRST_OBJECT}
         UNION ALL
        SELECT 'pg_proc'::regclass, 0, 'pg_catalog'::regnamespace, true, 'PostgreSQL', b.name,
               encode(sha256(convert_to(b.definition, 'UTF8')), 'hex')
          FROM ({_BUILT_IN}) AS b (name, definition)
         UNION ALL
        SELECT 'pg_type'::regclass, t.oid, t.typnamespace, true, 'type', format_type(t.oid, NULL),
               concat_ws(' ', t.typtype, format_type(nullif(t.typbasetype, 0), t.typtypmod),
                   CASE WHEN t.typnotnull THEN 'not null' END, 'default ' || t.typdefault,
                   (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
                      FROM pg_enum e WHERE e.enumtypid = t.oid))
          FROM pg_type t
         WHERE t.oid >= {_FIRST_OBJECT} AND t.typrelid = 0
           AND t.typsubscript <> 'array_subscript_handler'::regproc
         UNION ALL
        SELECT o.class, o.oid, o.schema, false, i.type, i.identity, ''
          FROM ({_NEVER_CREATED}) AS o (class, oid, schema)
         CROSS JOIN LATERAL pg_identify_object(o.class, o.oid, 0) AS i
         UNION ALL
        SELECT 'pg_subscription'::regclass, s.oid, 0, false, 'subscription', s.subname::text, ''
          FROM pg_subscription s
         WHERE s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND NOT EXISTS (SELECT FROM public.merchant_fence f
                            WHERE f.state = 'arriving'
                              AND s.subname = 'manilla_move_' || f.merchant_id))
    SELECT DISTINCT o.type COLLATE "C" AS type, o.name COLLATE "C" AS name,
           btrim(regexp_replace(o.definition, '\s+', ' ', 'g')) COLLATE "C" AS definition
      FROM object o LEFT JOIN schema s ON s.oid = o.schema
     WHERE (o.schema = 0 OR s.oid IS NOT NULL)
       AND (o.oid = 0 OR o.oid >= {_FIRST_OBJECT})
       AND NOT (s.name IS DISTINCT FROM 'public' AND o.is_data AND EXISTS (
                SELECT FROM pg_depend e
                 WHERE e.classid = o.class AND e.objid = o.oid AND e.deptype = 'e'))
     ORDER BY 1, 2, 3"""

# A move of a merchant creates these triggers with `merchant_fence_on`.
_FENCE = re.compile(
    r"CREATE TRIGGER (?:merchant_fence BEFORE INSERT OR UPDATE|merchant_fence_delete BEFORE DELETE)"
    r" ON public\.\w+ FOR EACH ROW WHEN \(\((?:new|old)\.(?:merchant_)?id"
    r" = ANY \('\{[0-9,]+\}'::bigint\[\]\)\)\) EXECUTE FUNCTION public\.merchant_fence\(\)"
)

MISSING = "The database does not have it."
UNKNOWN = "This version does not have it."
CHANGED = "The definition was changed."


class CatalogObject(msgspec.Struct, frozen=True):
    """An object in the database, or an object of this version that the database does not have."""

    type: str
    name: str
    definition: str  # of a function: the digest of its SQL
    problem: str | None = None
    expected: str | None = None  # the definition in this version, if it is another one

    @property
    def line(self) -> str:
        return f"{self.type}\t{self.name}\t{self.definition}"


async def compare(connection: Connection) -> list[CatalogObject]:
    """Returns all objects. `problem` says how one differs from this version."""
    found = await read(connection)
    expected = [CatalogObject(*line.split("\t")) for line in EXPECTED.read_text().splitlines()]
    return [*_compared(found, expected), *_missing(found, expected)]


async def read(connection: Connection) -> list[CatalogObject]:
    """Returns all objects of the database. Must run in a transaction."""
    await connection.execute(SETTINGS)
    rows = await connection.records(OBJECTS)
    await connection.execute(f"SET LOCAL search_path = {SEARCH_PATH}")
    return [CatalogObject(row["type"], row["name"], _definition(row)) for row in rows]


def _definition(row: dict[str, str]) -> str:
    text = row["definition"]
    return hashlib.sha256(text.encode()).hexdigest() if row["type"] == "function" else text


def _compared(
    found: Iterable[CatalogObject], expected: Iterable[CatalogObject]
) -> Iterable[CatalogObject]:
    definitions = {(each.type, each.name): each.definition for each in expected}
    for each in found:
        known = definitions.get((each.type, each.name))
        if known == each.definition or (
            each.type == "trigger" and _FENCE.fullmatch(each.definition)
        ):
            yield each
        else:
            problem = UNKNOWN if known is None else CHANGED
            yield msgspec.structs.replace(each, problem=problem, expected=known)


def _missing(
    found: Iterable[CatalogObject], expected: Iterable[CatalogObject]
) -> Iterable[CatalogObject]:
    names = {(each.type, each.name) for each in found}
    for each in expected:
        if (each.type, each.name) not in names:
            yield CatalogObject(each.type, each.name, "", MISSING, each.definition)
