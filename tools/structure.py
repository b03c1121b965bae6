"""Checks limits that keep the code easy to navigate: `python -m tools.structure`.

This check is part of `make check`. For each violation, it prints a line that says what to change.
"""

import ast
import gc
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tools.table_owners import find_foreign_tables, find_unknown_tables

ROOT = Path("manilla")
MODULES_MAX = {"manilla/payouts": 20}
MODULES_MAX_DEFAULT = 25
# Modules form a family if at least this many share the first or last word of their names.
FAMILY_MIN = 3
# These folders are exempt: migrations are numbered files, and each sample is a separate file.
EXEMPT = ("manilla/sql/migrations", "manilla/reference/samples")


def main() -> None:
    found = [line for check in CHECKS for line in check()]
    print(*found, sep="\n", end="\n" if found else "")
    raise SystemExit(1 if found else 0)


def count_modules() -> Iterator[str]:
    for folder, names in _packages().items():
        limit = MODULES_MAX.get(folder, MODULES_MAX_DEFAULT)
        if len(names) > limit:
            yield f"{folder}: {len(names)} modules, at most {limit}: create a subpackage"


def find_families() -> Iterator[str]:
    """Finds modules whose names share a word. Such modules belong in a package with that name."""
    for folder, names in _packages().items():
        words = [name.split("_") for name in names if "_" in name]
        for label, position in (("{}_*", 0), ("*_{}", -1)):
            for word, count in Counter(each[position] for each in words).items():
                if count >= FAMILY_MIN:
                    yield f"{folder}: {count} modules {label.format(word)}: create a package"


def find_repeated_class_names() -> Iterator[str]:
    places = defaultdict(list)
    for path, tree in _modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            yield f"class {name} is declared in {', '.join(paths)}: give each a unique name"


def find_bag_classes() -> Iterator[str]:
    """Finds classes whose only field contains the services. They should be modules of functions."""
    for path, tree in _modules():
        for node in _statements(tree):
            if isinstance(node, ast.ClassDef) and _holds_only_services(node):
                yield f"{path}:{node.lineno}: class {node.name} holds only the services"


def find_awaiting_asserts() -> Iterator[str]:
    """Finds calls in `assert` statements, which `python -O` does not execute."""
    for path, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert) and any(
                isinstance(part, ast.Await) for part in ast.walk(node.test)
            ):
                yield f"{path}:{node.lineno} awaits in an assert: `python -O` would skip the call"


def find_circles() -> Iterator[str]:
    """Finds packages that import each other, directly or indirectly."""
    imports = package_imports()
    for package in sorted(imports):
        if package in _reachable(imports, package):
            names = ", ".join(f"manilla.{each}" for each in sorted(imports[package]))
            yield f"manilla.{package} imports itself through {names}"


def package_imports() -> dict[str, set[str]]:
    """Maps each package or top-level module to the packages and modules that it imports."""
    imports: dict[str, set[str]] = defaultdict(set)
    for path, tree in _modules():
        package = path.with_suffix("").parts[1]
        imports[package] |= {name.split(".")[1] for name in _imported(tree)}
    return imports


# These words end in "ed", but are not participles.
_NOT_PARTICIPLES = frozenset({"feed", "need", "seed", "speed"})
_IRREGULAR = frozenset(
    {"bound", "built", "chosen", "done", "found", "given", "held", "hidden", "kept", "known"}
    | {"left", "lost", "made", "paid", "said", "seen", "sent", "shown", "taken", "written"}
)


def find_participles() -> Iterator[str]:
    """Finds public functions whose name is a participle instead of a verb or a noun."""
    for path, tree in _modules():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = node.name
                is_regular = name.endswith("ed") and "_" not in name
                if name in _IRREGULAR or (is_regular and name not in _NOT_PARTICIPLES):
                    yield f"{path}:{node.lineno}: function {name} is named by a participle"


# A page or an endpoint that shows rows, and code that passes the reader on. Do not add a module
# whose reads decide whether money moves: it must read from the primary.
STANDBY_READERS = frozenset(
    {
        "manilla/api/balances.py",
        "manilla/api/lists.py",
        "manilla/cli/proving/prove.py",
        "manilla/console/disputes.py",
        "manilla/console/fees/margin.py",
        "manilla/console/fees/trial.py",
        "manilla/console/ledger.py",
        "manilla/console/lookup.py",
        "manilla/console/merchant/customers.py",
        "manilla/console/overview.py",
        "manilla/console/reconciliation.py",
        "manilla/dashboard/batches.py",
        "manilla/dashboard/home.py",
        "manilla/dashboard/search.py",
        "manilla/instance_metrics.py",
        "manilla/proofs/pack.py",
        "manilla/services.py",
        "manilla/web/columns/statement.py",
        "manilla/web/page_request.py",
        "manilla/web/record_list.py",
        "manilla/wiring.py",
        "manilla/worker.py",
    }
)
_READER_USE = re.compile(r"\b(request|services)\.(reads|pages)\b")
_READER_NAMES = {"reader", "Reader", "ReaderByKey", "RequestReads", "Standby", "StandbyBehind"}


def find_standby_readers() -> Iterator[str]:
    """Finds modules that read from a standby, but may not, and those that no longer do."""
    for path, tree in _modules():
        is_reader = bool(_READER_USE.search(path.read_text())) or _imports_reader(tree)
        if is_reader and str(path) not in STANDBY_READERS:
            yield f"{path} reads from a standby, and is not in STANDBY_READERS"
        elif not is_reader and str(path) in STANDBY_READERS:
            yield f"{path} is in STANDBY_READERS, and does not read from a standby"


def _imports_reader(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("manilla.kit.database")
        and not _READER_NAMES.isdisjoint(each.name for each in node.names)
        for node in _statements(tree)
    )


CHECKS: tuple[Callable[[], Iterator[str]], ...] = (
    count_modules,
    find_awaiting_asserts,
    find_families,
    find_repeated_class_names,
    find_bag_classes,
    find_circles,
    find_foreign_tables,
    find_participles,
    find_standby_readers,
    find_unknown_tables,
)


@cache
def _modules() -> list[tuple[Path, ast.Module]]:
    # All syntax trees are needed until the script ends, so garbage collection would free nothing.
    gc.disable()
    paths = [path for path in sorted(ROOT.rglob("*.py")) if not str(path).startswith(EXEMPT)]
    return [(path, ast.parse(path.read_text())) for path in paths]


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yields all Python statements without their expressions, five times as fast as `ast.walk`."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, block, ())


def _packages() -> dict[str, list[str]]:
    names = defaultdict(list)
    for path, _ in _modules():
        if path.stem != "__init__":
            names[str(path.parent)].append(path.stem)
    return names


def _holds_only_services(node: ast.ClassDef) -> bool:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            parameters = [each.arg for each in (*item.args.args, *item.args.kwonlyargs)]
            return parameters == ["self", "services"] and len(item.body) == 1
    return False


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in _statements(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("manilla."):
            yield str(node.module)
        elif isinstance(node, ast.ImportFrom) and node.module == "manilla":
            yield from (f"manilla.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith("manilla."))


def _reachable(imports: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [each for each in imports[start] if each != start]
    while waiting:
        package = waiting.pop()
        if package not in found:
            found.add(package)
            waiting += imports.get(package, ())
    return found


if __name__ == "__main__":
    main()
