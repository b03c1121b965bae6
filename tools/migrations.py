"""Checks that no migration blocks requests or breaks the previous version.

`python -m tools.migrations` is part of `make check`. It prints one line per violation. The rules
are in CONTRIBUTING.md. A statement whose effect is not known here is also a violation.
"""

import re
import subprocess
from collections.abc import Callable, Iterator

import msgspec

from manilla.sql import runner
from manilla.sql.tables import GROWING
from tools import releases
from tools.sql_text import split_actions, statements

FUNCTIONS = runner.FOLDER.parent / "functions"

# The rules that a migration breaks, with the reason why it may.
_RELEASED = "released in 0.7.0, before this rule existed"
ACCEPTED = {
    "0043_events": {"removal": "replaces a check by one that allows more values"},
    "0047_write_costs": {"removal": "replaces checks by cheaper ones that allow the same values"},
    "0057_wrong_amounts": {"removal": "replaces checks by ones that allow more values"},
    "0060_attempt_ends": {"scan": _RELEASED, "bulk": _RELEASED, "backfill": _RELEASED},
    "0062_types_of_old_notifications": {"bulk": _RELEASED},
    "0064_facts_of_old_events": {"lock": _RELEASED, "bulk": _RELEASED, "backfill": _RELEASED},
    "0065_notes_without_rails": {"bulk": _RELEASED, "backfill": _RELEASED},
    "0067_codes_of_old_errors": {"bulk": _RELEASED, "backfill": _RELEASED},
    "0074_months_and_archive": {
        "removal": "replaces triggers by ones that also allow the deletion of archived rows",
    },
    "0106_customers": {"removal": "replaces a check by one that allows more values"},
    "0113_shops": {"removal": "replaces a check by one that allows more values"},
    "0081_moving_merchants": {
        "removal": "replaces a trigger by ones that also allow the deletion of copied rows",
    },
    "0076_request_log_by_month": {
        "removal": "the running version uses the new table, which has the same name and columns",
    },
    "0068_fan_out_by_statement": {
        "removal": "replaces a trigger by one that does the same for many rows"
    },
    "0100_names_of_accounts": {"removal": "replaces a check by one that allows more values"},
    "0101_disputes": {"removal": "replaces a check by one that allows more values"},
    "0102_prices": {"removal": "replaces a check by one that allows more values"},
    "0091_amounts_received": {
        "backfill": "corrects values: the previous version writes wrong ones only in a rare case"
    },
}

# PostgreSQL evaluates these functions once for all existing rows, so it does not rewrite the table.
_EVALUATED_ONCE = {"now", "transaction_timestamp", "pg_current_xact_id", "current_event_epoch"}

_CONSTRAINT = re.compile(
    r"add (?:constraint (?P<name>\w+) )?(?:check|unique|primary key|foreign key|exclude|not null)\b"
)
_NOT_NULL = re.compile(r"(?:check \( (\w+) is not null \)|\bnot null (\w+))")
_COLUMN = re.compile(r"add (?:column )?(?:if not exists )?(?P<name>\w+) (?P<type>\w+)(?P<rest>.*)")
_INLINE = re.compile(r"\b(?:check|unique|primary key|references)\b")
_DEFAULT = re.compile(r"\bdefault (.+?)(?= not null| check| references| unique| constraint|$)")
_HARMLESS = re.compile(
    r"alter (?:column )?\w+ set (?:default|statistics|storage|compression)\b|(?:re)?set \("
)
_DROPPED = re.compile(r"drop (?:column )?(?:if exists )?(\w+)(?: cascade| restrict)?$")
_RENAMED = re.compile(r"rename (?:column )?(\w+) to ")
_CREATED = re.compile(r"create (?:unlogged )?table (?:if not exists )?(\w+)")
_ALTERED = re.compile(r"alter table (?:if exists )?(?:only )?(?P<name>\w+) (?P<actions>.+)")
_CHANGED = re.compile(r"(?:update|delete from) (?:only )?(?P<table>\w+)")
_CONCURRENT = re.compile(r"(?:create (?:unique )?|drop )index concurrently ")
_INDEX = re.compile(
    r"create (?:unique )?index (?P<how>concurrently )?(?:\w+ )?on (?:only )?(?P<table>\w+)"
)
_KNOWN = re.compile(
    r"create (?:or replace )?(?:function|trigger|type|domain|view|sequence)\b"
    r"|create (?:unlogged )?table\b|alter type \w+ add value\b|insert into|comment on"
    # These statements change only the catalog: `months_attach` relies on a validated constraint.
    r"|alter index \w+ rename to \w+$|select months_(?:limit|attach) \("
    r"|alter function \w+ \([\w, ]*\) set search_path = "
)


class Problem(msgspec.Struct, frozen=True):
    rule: str
    detail: str


class History(msgspec.Struct):
    """What the migrations so far have added."""

    columns: set[tuple[str, str]] = msgspec.field(default_factory=set)
    constrained_domains: set[str] = msgspec.field(default_factory=set)
    # Tables with a trigger that fills in columns which the previous version does not write.
    filled: set[str] = msgspec.field(default_factory=set)
    # Columns that a constraint requires to be set, by table and name of the constraint.
    required: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)
    validated: set[tuple[str, str]] = msgspec.field(default_factory=set)


class Context(msgspec.Struct, frozen=True):
    """What the statements of one migration are checked against."""

    growing: frozenset[str]
    history: History
    is_used: Callable[[str], bool]
    is_repeated: bool


def main() -> None:
    found = [*find_problems(), *find_dropped_functions()]
    print(*found, sep="\n", end="\n" if found else "")
    raise SystemExit(1 if found else 0)


def find_problems() -> Iterator[str]:
    """Yields the violations in all migrations, and the outdated entries in ACCEPTED."""
    history = History()
    baseline, *later = sorted(runner.FOLDER.glob("[0-9]*_*.sql"))
    for statement in statements(baseline.read_text()):
        _remember(statement, history)
    for file in later:
        accepted = ACCEPTED.get(file.stem, {})
        problems = check(file.read_text(), history, is_used_before)
        for problem in problems:
            if problem.rule not in accepted:
                yield f"{file.name}: [{problem.rule}] {problem.detail}"
        for rule in accepted.keys() - {each.rule for each in problems}:
            yield f"{file.name}: no longer breaks the rule {rule}: remove it from ACCEPTED"


def find_dropped_functions() -> Iterator[str]:
    """Finds functions that are dropped, although the previous version may still call them."""
    for file in sorted(FUNCTIONS.glob("*.sql")):
        if any(each.startswith("drop ") for each in statements(file.read_text())):
            yield f"{file.name}: [removal] drops an object that the previous version may use"


def is_used_before(name: str) -> bool:
    """Whether the code of the previous release contains the name, as far as the history shows."""
    project = runner.FOLDER.parents[2]
    commit = next(iter(releases.newest(project).values()), None)
    if commit is None:
        return True
    search = ["git", "grep", "-qw", name, commit, "--", "manilla", ":!manilla/sql/migrations"]
    return subprocess.run(search, cwd=project, check=False).returncode != 1


def check(sql: str, history: History, is_used: Callable[[str], bool]) -> list[Problem]:
    """Returns the violations in one migration, and adds its changes to the history."""
    parsed = statements(sql)
    # No process uses a table that the same transaction creates.
    created = {name for each in parsed for name in _CREATED.findall(each)}
    context = Context(GROWING - created, history, is_used, sql.startswith(runner.REPEATED))
    found = list(_check_order(sql, parsed, context))
    for statement in parsed:
        found += _check_statement(statement, context)
        _remember(statement, history)
    return found


def _check_order(sql: str, parsed: list[str], context: Context) -> Iterator[Problem]:
    """Checks which statements are in one transaction."""
    validating = [each for each in parsed if " validate constraint " in each]
    if validating and len(validating) < len(parsed):
        detail = "VALIDATE CONSTRAINT scans the table: move it to a migration of its own"
        yield Problem("validate", detail)
    if context.is_repeated and len(parsed) != 1:
        yield Problem("bulk", "a repeated migration must have one statement")
    are_concurrent = [bool(_CONCURRENT.match(each)) for each in parsed]
    if are_concurrent != sorted(are_concurrent):
        yield Problem("order", "other statements must precede those with CONCURRENTLY")
    if sum(are_concurrent) != len(runner.CONCURRENT.findall(sql)):
        yield Problem("order", "a statement with CONCURRENTLY must start on a line of its own")


def _check_statement(statement: str, context: Context) -> Iterator[Problem]:
    if table := _ALTERED.match(statement):
        for action in split_actions(table["actions"]):
            yield from _check_action(table["name"], action, context)
    elif statement.startswith("alter domain "):
        yield from _check_domain(statement)
    elif index := _INDEX.match(statement):
        if index["table"] in context.growing and not index["how"]:
            yield Problem("index", f"blocks writes to {index['table']}: use CONCURRENTLY")
    elif change := _CHANGED.match(statement):
        yield from _check_change(change["table"], statement, context)
    elif statement.startswith("drop index "):
        if not statement.startswith("drop index concurrently if exists "):
            yield Problem("index", "use DROP INDEX CONCURRENTLY IF EXISTS")
    elif statement.startswith("drop "):
        yield from _check_removal(re.sub("^drop table", "drop", statement), statement, context)
    elif statement.startswith("lock "):
        yield Problem("lock", "LOCK blocks requests until the migration ends")
    elif not _KNOWN.match(statement):
        yield Problem("unknown", f"no rule covers this statement: {statement[:60]}")


def _check_action(table: str, action: str, context: Context) -> Iterator[Problem]:
    """Checks one action of ALTER TABLE."""
    is_growing = table in context.growing
    if _CONSTRAINT.match(action):
        if is_growing and not re.search("not valid|using index", action):
            detail = f"scans {table} while it is locked: add the constraint with NOT VALID"
            yield Problem("scan", detail)
    elif column := _COLUMN.match(action):
        yield from _check_column(table, column, context)
    elif re.match(r"alter (column )?\w+ (set data )?type\b", action):
        yield Problem("type", f"rewrites {table}, and the previous version may need the old type")
    elif required := re.match(r"alter (?:column )?(\w+) set not null", action):
        if not _is_required(table, required[1], context.history):
            detail = f"scans {table}: first validate a CHECK ({required[1]} IS NOT NULL)"
            yield Problem("not null", detail)
    elif re.match("(enable|disable) trigger", action):
        if is_growing:
            yield Problem("lock", f"blocks writes to {table} until the migration ends")
    elif re.match(r"drop|rename|alter (column )?\w+ drop", action):
        yield from _check_removal(action, f"alter table {table} {action}", context)
    elif not action.startswith("validate constraint") and not _HARMLESS.match(action):
        yield Problem("unknown", f"no rule covers this change of {table}: {action[:60]}")


def _check_column(table: str, column: re.Match[str], context: Context) -> Iterator[Problem]:
    name, rest = column["name"], column["rest"]
    default = _DEFAULT.search(rest)
    if re.search(r"\bnot null\b", rest) and not default:
        yield Problem("fill", f"the previous version does not fill {table}.{name}: add a default")
    if table not in context.growing:
        return
    called = set(re.findall(r"(\w+) \(", default[1])) if default else set()
    if called - _EVALUATED_ONCE:
        functions = ", ".join(sorted(called - _EVALUATED_ONCE))
        yield Problem("rewrite", f"rewrites {table} if the default is volatile: {functions}")
    if "generated" in rest and not rest.endswith("virtual"):
        yield Problem("rewrite", f"rewrites {table} to compute the column {name}")
    if column["type"] in {"serial", "bigserial", "smallserial"}:
        yield Problem("rewrite", f"rewrites {table} to number the rows")
    if column["type"] in context.history.constrained_domains:
        yield Problem("rewrite", f"rewrites {table} because {column['type']} has constraints")
    if _INLINE.search(rest):
        yield Problem("scan", f"scans {table}: add the constraint on {name} with NOT VALID")


def _check_domain(statement: str) -> Iterator[Problem]:
    if " drop " in statement:
        yield Problem("removal", f"the previous version may rely on it: {statement[:60]}")
    elif " add " in statement and not statement.endswith("not valid"):
        yield Problem("scan", "scans every table with the domain: add the constraint NOT VALID")


def _check_change(table: str, statement: str, context: Context) -> Iterator[Problem]:
    """Checks UPDATE and DELETE."""
    if table not in context.growing:
        return
    if not (context.is_repeated and re.search(r"\blimit \d+", statement)):
        detail = f"changes {table} in one long transaction: use LIMIT in a repeated migration"
        yield Problem("bulk", detail)
    for column in re.findall(r"(?:set|,) (\w+) =", statement):
        if (table, column) in context.history.columns and table not in context.history.filled:
            detail = f"rows that the previous version adds lack {table}.{column}: add a trigger"
            yield Problem("backfill", detail)


def _check_removal(what: str, statement: str, context: Context) -> Iterator[Problem]:
    """Allows the removal of a table or column whose name the previous release does not contain."""
    name = _DROPPED.match(what) or _RENAMED.match(what)
    if name is None or context.is_used(name[1]):
        yield Problem(
            "removal", f"the previous version may use what this removes: {statement[:60]}"
        )


def _is_required(table: str, column: str, history: History) -> bool:
    """Whether a valid constraint already requires the column to be set."""
    return any(
        history.required.get(each) == column for each in history.validated if each[0] == table
    )


def _remember(statement: str, history: History) -> None:
    if domain := re.match(r"create domain (\w+) .*\bcheck\b", statement):
        history.constrained_domains.add(domain[1])
    elif trigger := re.match(
        r"create (?:or replace )?trigger \w+ before insert.* on (\w+)", statement
    ):
        history.filled.add(trigger[1])
    elif table := _ALTERED.match(statement):
        for action in split_actions(table["actions"]):
            _remember_action(table["name"], action, history)


def _remember_action(table: str, action: str, history: History) -> None:
    if constraint := _CONSTRAINT.match(action):
        if required := _NOT_NULL.search(action):
            history.required[table, constraint["name"]] = required[1] or required[2]
    elif column := _COLUMN.match(action):
        history.columns.add((table, column["name"]))
    elif validated := re.match(r"validate constraint (\w+)", action):
        history.validated.add((table, validated[1]))


if __name__ == "__main__":
    main()
