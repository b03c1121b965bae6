"""Lists which packages may use another package's database table in their SQL statements.

Only the package that owns a table (`manilla/sql/tables.py`) writes to the table, so that one
package contains all rules for the table. The functions in `manilla/sql/functions` write on behalf
of their callers.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from manilla.sql.tables import TABLES
from tools.written_tables import ExpressionWrite, expression_writes

MIGRATIONS = Path("manilla/sql/migrations")
_CREATED = re.compile(r"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)")
_NAMED = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM|FROM|JOIN)\s+(?:ONLY )?(\w+)")
_READING = ("FROM", "JOIN")
_DELETED = re.compile(r'\bdelete_older\(\w+, "(\w+)"')
CHECKER = "proofs"  # the package that checks all tables, so it may read each of them

# Files that write to other packages' tables in ways that have no rules of their own.
ANY_TABLE = {
    "cells/moving/rows.py": "copies the rows of a merchant that moves",
    "kit/crypto.py": "encrypts columns again with another master key",
    "kit/database/expiry.py": "deletes old rows of its callers' tables (`delete_older`)",
}


class TableUse(msgspec.Struct, frozen=True):
    readers: str  # names of the packages, besides the owner, that read the table
    writers: str = ""


OWNERS = {table.name: table.owner for table in TABLES}
# Tables that other packages than the owner use.
# The package `cells` reads and copies the rows of a merchant that moves to another cell.
SHARED = {
    "archive_month": TableUse("invoices"),
    "audit": TableUse("approvals people"),
    "charge": TableUse("customers disputes margin providers reconciliation saved_ways"),
    "credential": TableUse("cli"),
    "customer_account": TableUse("providers"),
    "deleted_notifications": TableUse("payments payouts"),
    "dispute": TableUse("margin prices reconciliation refunds withheld"),
    "dossier": TableUse("invoices"),
    "entry": TableUse(
        "cells console disputes invoices lookup margin payments payouts prices reconciliation"
        " refunds resolutions splits"
    ),
    # The package `providers` inserts a webhook and its job in one SQL statement.
    "job": TableUse(
        "customers disputes instance_metrics payments payouts reconciliation routing saved_ways"
        " splits transfers",
        writers="providers cells",
    ),
    "membership": TableUse("mail", writers="cells"),
    "merchant": TableUse(
        "cells console customers invoices mail people settlements splits transaction_types"
    ),
    "notification": TableUse("cells payments payouts"),
    "operator_case": TableUse("instance_metrics ledger payments payouts providers reconciliation"),
    "payment": TableUse(
        "approvals customers disputes margin notify prices reconciliation saved_ways"
        " splits transaction_types"
    ),
    # The package `providers` saves a webhook's session id early, so that notifications contain it.
    # The package `transfers` marks payouts and refunds as sent.
    "payout": TableUse(
        "bulk cells instance_metrics ledger margin notify prices reconciliation routing",
        writers="providers transfers",
    ),
    "payout_attempt": TableUse("bulk providers transfers"),
    "person": TableUse("mail", writers="cells"),
    "posting": TableUse(
        "cells disputes invoices lookup margin payments payouts prices reconciliation refunds"
        " resolutions splits"
    ),
    "posting_chain_head": TableUse("ledger"),
    "provider_bank": TableUse("console"),
    "refund": TableUse(
        "disputes margin payments payouts providers reconciliation",
        writers="transfers",
    ),
    "reported_balance": TableUse("reconciliation"),
    "session": TableUse("", writers="cells"),
    "setting": TableUse("merchants"),
    "settlement_account": TableUse("payouts"),
    "split": TableUse("cells transaction_types withheld"),
    "split_partner": TableUse("cells"),
    "split_rule": TableUse("merchants"),
    "timeline": TableUse("payments payouts"),
    "wallet": TableUse("bulk cells disputes ledger lookup payouts splits"),
    "webhook": TableUse("console transfers"),
    # The package `merchants` disables the endpoints of an API key that is revoked.
    "webhook_endpoint": TableUse("", writers="merchants"),
    "approval": TableUse("cells"),
    "case_event": TableUse("cells"),
    "master_key_proof": TableUse("cells"),
    "merchant_fence": TableUse("invoices ledger margin reconciliation"),
    "method": TableUse("cells prices"),
    "payout_batch": TableUse("", writers="cells"),
    "settlement": TableUse("margin"),
    "posting_chain": TableUse("margin payouts reconciliation"),
}


def find_foreign_tables() -> Iterator[str]:
    """Finds packages that use another package's table, and outdated entries in SHARED."""
    for table, (writers, readers) in sorted(_uses().items()):
        if table not in OWNERS:
            yield f"table {table} has no row in manilla/sql/tables.py"
            continue
        use = SHARED.get(table, TableUse(""))
        may_write, owner = set(use.writers.split()), {OWNERS[table]}
        yield from _differences(table, "writes to", writers - owner, may_write)
        yield from _differences(table, "reads", readers - owner - may_write, {*use.readers.split()})


def find_unknown_tables() -> Iterator[str]:
    """Finds statements that write to an unknown table, and outdated entries in ANY_TABLE."""
    for file, writes in sorted(_expression_writes().items()):
        is_listed = file.relative_to("manilla").as_posix() in ANY_TABLE
        if is_listed and not writes:
            yield f"{file} writes to no table that an expression names: remove it from ANY_TABLE"
        for write in writes if not is_listed else ():
            if not write.tables:
                yield f"{file} writes to the table {{{write.expression}}}: name it in constants"


def _differences(table: str, what: str, found: set[str], allowed: set[str]) -> Iterator[str]:
    for package in sorted(found - allowed):
        yield f"table {table}: {package} {what} it; its owner is {OWNERS[table]}"
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
    for file, writes in _expression_writes().items():
        if file.relative_to("manilla").as_posix() not in ANY_TABLE:
            for table in {table for write in writes for table in write.tables} & uses.keys():
                uses[table][0].add(file.parts[1])
    return uses


def _named(file: Path) -> list[tuple[str, str]]:
    """Returns the verbs and tables of a file's SQL statements."""
    text = file.read_text()
    return [*_NAMED.findall(text), *(("UPDATE", table) for table in _DELETED.findall(text))]


def _expression_writes() -> dict[Path, list[ExpressionWrite]]:
    files = [file for file in Path("manilla").rglob("*.py") if file.parts[1] != "sql"]
    texts = {file: file.read_text() for file in files}
    return {
        file: list(expression_writes(text, list(texts.values()))) for file, text in texts.items()
    }
