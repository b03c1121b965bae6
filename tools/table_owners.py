"""Lists which packages may use which database table in their SQL statements.

Only the package that owns a table writes to the table, so that one package contains all rules for
the table. The functions in `manilla/sql/functions` write on behalf of their callers.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

MIGRATIONS = Path("manilla/sql/migrations")
_CREATED = re.compile(r"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)")
_NAMED = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM|FROM|JOIN)\s+(?:ONLY )?(\w+)")
_READING = ("FROM", "JOIN")
# A statement whose table is the value of an expression, and a call that deletes rows of a table.
_BY_EXPRESSION = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(?:ONLY )?\{")
_DELETED = re.compile(r'\bdelete_older\(\w+, "(\w+)"')
CHECKER = "proofs"  # the package that checks all tables, so it may read each of them


# The tables that statements write to if an expression names the table, for each file with such
# statements.
BY_EXPRESSION = {
    "cells/moving/steps.py": "membership session",
    "merchants/requests/log.py": "api_key credential",
    "people/queries.py": "invitation password_reset",
    "transfers/sending.py": "payout refund",
}
# Files that write to other packages' tables in ways that have no rules of their own.
ANY_TABLE = {
    "cells/moving/rows.py": "copies the rows of a merchant that moves",
    "kit/crypto.py": "encrypts columns again with another master key",
    "kit/database/expiry.py": "deletes old rows of its callers' tables (`delete_older`)",
}


class TableUse(msgspec.Struct, frozen=True):
    owner: str
    readers: str  # names of the packages, besides the owner, that read the table
    writers: str = ""


# Tables that several packages use. Every other table belongs to the only package that uses it.
# The package `cells` reads and copies the rows of a merchant that moves to another cell.
SHARED = {
    "audit": TableUse("audit", "approvals people"),
    "charge": TableUse("payments", "cells lookup providers reconciliation"),
    "credential": TableUse("merchants", "cli"),
    "deleted_notifications": TableUse("notify", "payments payouts"),
    "entry": TableUse(
        "ledger", "cells console lookup payments payouts reconciliation refunds resolutions"
    ),
    # The package `providers` inserts a webhook and its job in one SQL statement.
    "job": TableUse(
        "kit",
        "instance_metrics payments payouts reconciliation routing transfers",
        writers="providers cells",
    ),
    "membership": TableUse("people", "mail", writers="cells"),
    "merchant": TableUse("merchants", "console mail people settlements"),
    "notification": TableUse("notify", "cells payments payouts"),
    "operator_case": TableUse(
        "cases", "instance_metrics ledger payments payouts providers reconciliation"
    ),
    "payment": TableUse("payments", "approvals lookup notify reconciliation"),
    # The package `providers` saves a webhook's session id early, so that notifications contain it.
    # The package `transfers` marks payouts and refunds as sent.
    "payout": TableUse(
        "payouts",
        "bulk cells instance_metrics ledger lookup notify reconciliation routing",
        writers="providers transfers",
    ),
    "payout_attempt": TableUse("payouts", "bulk cells providers transfers"),
    "person": TableUse("people", "mail", writers="cells"),
    "posting": TableUse(
        "ledger", "cells lookup payments payouts reconciliation refunds resolutions"
    ),
    "posting_chain_head": TableUse("proofs", "ledger"),
    "provider_bank": TableUse("banks", "console"),
    "refund": TableUse(
        "refunds",
        "cells lookup payments payouts providers reconciliation",
        writers="transfers",
    ),
    "reported_balance": TableUse("providers", "reconciliation"),
    "session": TableUse("people", "", writers="cells"),
    "setting": TableUse("platform", "merchants"),
    "timeline": TableUse("ledger", "payments payouts"),
    "wallet": TableUse("merchants", "bulk cells ledger lookup payouts"),
    "webhook": TableUse("providers", "console transfers"),
    "webhook_endpoint": TableUse("notify", "merchants"),
    "approval": TableUse("approvals", "cells"),
    "case_event": TableUse("cases", "cells"),
    "master_key_proof": TableUse("platform", "cells"),
    "merchant_fence": TableUse("cells", "ledger reconciliation"),
    "method": TableUse("methods", "cells"),
    "payout_batch": TableUse("bulk", "", writers="cells"),
    "posting_chain": TableUse("proofs", "payouts reconciliation"),
}


def find_foreign_tables() -> Iterator[str]:
    """Finds packages that use another package's table, and outdated entries in SHARED."""
    for table, (writers, readers) in sorted(_uses().items()):
        if table in SHARED:
            use = SHARED[table]
            may_write = set(use.writers.split())
            yield from _differences(table, "writes to", writers - {use.owner}, may_write)
            reading = readers - {use.owner} - may_write
            yield from _differences(table, "reads", reading, set(use.readers.split()))
        elif len(writers | readers) > 1:
            names = ", ".join(sorted(writers | readers))
            yield f"table {table}: {names} use it, but it has no owner in SHARED"


def find_unlisted_expressions() -> Iterator[str]:
    """Finds files that write to a table that an expression names, and outdated entries."""
    for file in sorted(Path("manilla").rglob("*.py")):
        name = file.relative_to("manilla").as_posix()
        writes = _BY_EXPRESSION.search(file.read_text()) is not None
        is_listed = name in BY_EXPRESSION or name in ANY_TABLE
        if writes and not is_listed and file.parts[1] != "sql":
            yield f"{file} writes to a table that an expression names: list it in BY_EXPRESSION"
        elif is_listed and not writes:
            yield f"{file} writes to no table that an expression names: remove it from the lists"


def _differences(table: str, what: str, found: set[str], allowed: set[str]) -> Iterator[str]:
    for package in sorted(found - allowed):
        yield f"table {table}: {package} {what} it; its owner is {SHARED[table].owner}"
    for package in sorted(allowed - found):
        yield f"table {table}: {package} no longer {what} it: remove it from SHARED"


def _uses() -> dict[str, tuple[set[str], set[str]]]:
    """Returns, for each table, the packages that write to it and the packages that read it."""
    created = "\n".join(file.read_text() for file in MIGRATIONS.glob("*.sql"))
    uses: dict[str, tuple[set[str], set[str]]] = {
        table: (set(), set()) for table in _CREATED.findall(created)
    }
    for file in Path("manilla").rglob("*.py"):
        package = file.parts[1] if len(file.parts) > 2 else file.stem
        for verb, table in _named(file) if package != "sql" else ():
            if table in uses and (package != CHECKER or verb not in _READING):
                uses[table][verb in _READING].add(package)
    return uses


def _named(file: Path) -> list[tuple[str, str]]:
    """Returns the verbs and tables of a file's SQL statements."""
    text, name = file.read_text(), file.relative_to("manilla").as_posix()
    written = [*_DELETED.findall(text), *BY_EXPRESSION.get(name, "").split()]
    return [*_NAMED.findall(text), *(("UPDATE", table) for table in written)]
