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
CHECKER = "proofs"  # the package that checks all tables, so it may read each of them


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
    "payout": TableUse(
        "payouts",
        "bulk cells instance_metrics ledger lookup notify reconciliation routing transfers",
        writers="providers",
    ),
    "payout_attempt": TableUse("payouts", "bulk cells providers transfers"),
    "person": TableUse("people", "mail", writers="cells"),
    "posting": TableUse(
        "ledger", "cells lookup payments payouts reconciliation refunds resolutions"
    ),
    "posting_chain_head": TableUse("proofs", "ledger"),
    "provider_bank": TableUse("banks", "console"),
    "refund": TableUse("refunds", "cells lookup payments payouts providers reconciliation"),
    "reported_balance": TableUse("providers", "reconciliation"),
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
        for verb, table in _NAMED.findall(file.read_text()) if package != "sql" else ():
            if table in uses and (package != CHECKER or verb not in _READING):
                uses[table][verb in _READING].add(package)
    return uses
