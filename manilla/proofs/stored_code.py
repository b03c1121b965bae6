"""Compares the functions and triggers in the database with the SQL of this version."""

import hashlib
import re
from typing import Any

import msgspec

from manilla.kit.db import Connection
from manilla.sql import migrate

_FUNCTION = re.compile(r"^CREATE (?:OR REPLACE )?FUNCTION (\w+)", re.MULTILINE)
_BODY = re.compile(r"\$\$(.*?)\$\$", re.DOTALL)
_SETTING = re.compile(r"\bSET (\w+) = ([\w, ]+?)(?= +--| +AS\b|$)", re.MULTILINE)
_DROPPED_FUNCTION = re.compile(r"^DROP FUNCTION (?:IF EXISTS )?(\w+)", re.MULTILINE)
_TRIGGER = re.compile(r"^(CREATE|DROP) TRIGGER (\w+)\s.*?\bON (\w+)", re.MULTILINE | re.DOTALL)

# PostgreSQL stores these functions parsed. The digests are of the text that it formats from them.
PARSED = {
    "current_event_epoch": "382a54122fd3aa0482d24967285da9eb6f25a9df9afaba2e7e614968b461dca5",
    "event_type": "7105568baef1a524d4bbebdde1d5865a864d4b80db72b2274074bb97a7b431ec",
}

FUNCTIONS = """
    SELECT p.proname::text AS name, p.prosrc AS body, p.prosqlbody IS NOT NULL AS is_parsed,
           p.prosecdef AS is_definer, coalesce(p.proconfig, '{}') AS settings,
           pg_get_functiondef(p.oid) AS definition
      FROM pg_proc p
     WHERE p.pronamespace = 'public'::regnamespace AND p.prokind = 'f'
     ORDER BY p.proname, p.oid"""
TRIGGERS = """
    SELECT t.tgname::text AS name, t.tgrelid::regclass::text AS table_name,
           t.tgenabled = 'O' AS is_enabled, pg_get_triggerdef(t.oid) AS definition
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'public'::regnamespace AND NOT t.tgisinternal
     ORDER BY 2, 1"""

MISSING = "It is missing."
FENCES = ("merchant_fence", "merchant_fence_delete")


class StoredCode(msgspec.Struct, frozen=True):
    """A function or trigger in the database, with the digest of its definition."""

    type: str
    name: str
    digest: str
    problem: str | None


class _Shipped(msgspec.Struct, frozen=True):
    """A function in the SQL of this version."""

    body: str | None  # None if PostgreSQL stores it parsed
    is_definer: bool  # whether it runs with its owner's rights
    settings: frozenset[str]


async def compare(connection: Connection) -> list[StoredCode]:
    """Returns all functions and triggers. `problem` says how one differs from this version."""
    return [*await _functions(connection), *await _triggers(connection)]


async def _functions(connection: Connection) -> list[StoredCode]:
    shipped = _shipped_functions()
    found = []
    for row in await connection.records(FUNCTIONS):
        name, digest = row["name"], _digest(row["definition"])
        problem = _function_problem(row, digest, shipped.pop(name, None))
        found.append(StoredCode("function", name, digest, problem))
    return [*found, *(StoredCode("function", name, "", MISSING) for name in shipped)]


def _function_problem(row: Any, digest: str, shipped: _Shipped | None) -> str | None:
    if shipped is None:
        return "This version does not have the function."
    if row["is_parsed"]:
        return None if PARSED.get(row["name"]) == digest else "The definition was changed."
    if row["body"] != shipped.body:
        return "The body was changed."
    stored = row["is_definer"], frozenset(row["settings"])
    return None if stored == (shipped.is_definer, shipped.settings) else "The options were changed."


async def _triggers(connection: Connection) -> list[StoredCode]:
    shipped = _shipped_triggers()
    found = []
    for row in await connection.records(TRIGGERS):
        key = row["name"], row["table_name"]
        problem = None if row["is_enabled"] else "The trigger is disabled."
        # A move of a merchant creates these triggers with `merchant_fence_on`.
        is_fence = row["name"] in FENCES and row["definition"].endswith(
            " EXECUTE FUNCTION merchant_fence()"
        )
        if key not in shipped and not is_fence:
            problem = "This version does not have the trigger."
        shipped.discard(key)
        found.append(StoredCode("trigger", " on ".join(key), _digest(row["definition"]), problem))
    return [*found, *(StoredCode("trigger", " on ".join(key), "", MISSING) for key in shipped)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _scripts() -> list[str]:
    """Returns all SQL in the order in which a new database runs it."""
    folders = (migrate.FOLDER / "migrations", migrate.FOLDER / "functions")
    return [file.read_text() for folder in folders for file in sorted(folder.glob("*.sql"))]


def _shipped_functions() -> dict[str, _Shipped]:
    functions: dict[str, _Shipped] = {}
    for script in _scripts():
        for match in _FUNCTION.finditer(script):
            declaration, _, _ = script[match.start() :].partition(";\n")
            head, dollars, _ = declaration.partition("$$")
            body = _BODY.search(script, match.start()) if dollars else None
            functions[match[1]] = _Shipped(
                None if body is None else body[1],
                "SECURITY DEFINER" in head,
                frozenset(f"{name}={value.strip()}" for name, value in _SETTING.findall(head)),
            )
        for dropped in _DROPPED_FUNCTION.finditer(script):
            functions.pop(dropped[1], None)
    return functions


def _shipped_triggers() -> set[tuple[str, str]]:
    triggers: set[tuple[str, str]] = set()
    for script in _scripts():
        for change, name, table in _TRIGGER.findall(script):
            triggers.discard((name, table))
            if change == "CREATE":
                triggers.add((name, table))
    return triggers
