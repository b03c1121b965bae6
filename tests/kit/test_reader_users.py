"""Which modules may read from a standby. Code that moves money is not among them."""

import ast
from pathlib import Path

# A page or an endpoint that shows rows, and code that passes the reader on.
# Do not add a module whose reads decide whether money moves: it must read from the primary.
SHOWS = {
    "manilla/api/balances.py",
    "manilla/api/lists.py",
    "manilla/console/ledger.py",
    "manilla/console/lookup.py",
    "manilla/console/overview.py",
    "manilla/console/reconciliation.py",
    "manilla/dashboard/batches.py",
    "manilla/dashboard/home.py",
    "manilla/dashboard/search.py",
    "manilla/web/record_list.py",
}
PASSES_ON = {
    "manilla/cli/proving/prove.py",
    "manilla/instance_metrics.py",
    "manilla/proofs/pack.py",
    "manilla/services.py",
    "manilla/web/page_request.py",
    "manilla/wiring.py",
    "manilla/worker.py",
}
NAMES = {"reads", "pages"}


def _uses_reads(file: Path) -> bool:
    """Returns whether the module uses `request.reads`, `services.reads` or `services.pages`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("manilla.kit.sess"):
            if any(alias.name in READER for alias in node.names):
                return True
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            value = node.value
            name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
            if name in ("request", "services"):
                return True
    return False


READER = {"reader", "Reader", "ReaderByKey", "RequestReads", "Standby", "StandbyBehind"}


def test_only_these_modules_read_from_a_standby() -> None:
    found = {str(file) for file in Path("manilla").rglob("*.py") if _uses_reads(file)}
    assert found == SHOWS | PASSES_ON
