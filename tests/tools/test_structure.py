"""`tools.structure` finds each type of violation, and reports nothing for correct code."""

from pathlib import Path

import pytest

from tools import structure

CLEAN = {
    "manilla/services.py": "from manilla.kit.database import reader\nclass Services: ...\n",
    "manilla/kit/money.py": "class Money: ...\n",
    "manilla/payouts/sending.py": "from manilla.kit.money import Money\n",
}
TABLE = {
    "manilla/sql/migrations/0001.sql": "CREATE TABLE thing (id text)",
    "manilla/kit/things.py": """SQL = "SELECT FROM thing"\n""",
}


# Modules that write to the table `job`, whose name is the value of an expression.
TABLES = "class Rows:\n    kind: str\n    table: str\n"
SENT = "async def mark(rows: Rows):\n    await run(f'UPDATE {rows.table} AS t SET a = 1')\n"
WRITES_TO_JOB: list[tuple[str, dict[str, str]]] = [
    ("def end():\n    for table in ('job', 'other'):\n        run(f'DELETE FROM {table}')\n", {}),
    ("TABLE = 'job'\nSQL = 'INSERT ' 'INTO ' f'{TABLE} VALUES (1)'\n", {}),
    (
        "def end():\n    for number, table in ((1, 'other'), (2, 'job')):\n        _end(table)\n"
        "def _end(table):\n    run(f'DELETE FROM ONLY {table}')\n",
        {},
    ),
    (f"{TABLES}{SENT}OTHER = Rows('a', 'other')\nJOB = Rows('b', table='job')\n", {}),
    (f"{TABLES}{SENT}", {"manilla/kit/tables.py": "JOB = Rows('b', 'job')\n"}),
]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    structure._modules.cache_clear()
    return tmp_path


def write(tree: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found() -> list[str]:
    return [line for check in structure.CHECKS for line in check()]


def test_clean_tree_has_no_violation(tree: Path) -> None:
    write(tree, CLEAN)
    assert found() == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {f"manilla/payouts/module{n}.py": "" for n in range(20)},
            "manilla/payouts: 21 modules, at most 20",
        ),
        ({f"manilla/kit/module{n}.py": "" for n in range(25)}, "manilla/kit: 26 modules"),
        ({f"manilla/kit/bulk_{n}.py": "" for n in "abc"}, "3 modules bulk_*"),
        ({f"manilla/kit/{n}_queries.py": "" for n in "abc"}, "3 modules *_queries"),
        ({"manilla/ledger/sums.py": "class Money: ...\n"}, "class Money is declared in"),
        (
            {"manilla/payouts/sums.py": "from manilla.kit.database import reader\n"},
            "manilla/payouts/sums.py reads from a standby",
        ),
        (
            {"manilla/payouts/sums.py": "def total(request): return request.reads\n"},
            "manilla/payouts/sums.py reads from a standby",
        ),
        ({"manilla/wiring.py": "def wire(): ...\n"}, "and does not read from a standby"),
        (
            {
                "manilla/web/pages.py": "class Pages:\n"
                "    def __init__(self, services):\n"
                "        self._services = services\n"
            },
            "class Pages holds only the services",
        ),
        (
            {"manilla/kit/circle.py": "from manilla.payouts import sending\n"},
            "manilla.payouts imports itself",
        ),
        (
            {"manilla/kit/texts.py": "async def pay(): assert await send()\n"},
            "manilla/kit/texts.py:1 awaits in an assert",
        ),
        ({"manilla/kit/texts.py": "def searched(): ...\n"}, "searched is named by a participle"),
        ({"manilla/kit/texts.py": "async def sent(): ...\n"}, "sent is named by a participle"),
        (
            {**TABLE, "manilla/payouts/store.py": """SQL = "INSERT INTO thing VALUES (1)"\n"""},
            "table thing has no row in manilla/sql/tables.py",
        ),
        (
            {
                "manilla/sql/migrations/0001.sql": "CREATE TABLE job (a int);",
                "manilla/payouts/store.py": """SQL = "UPDATE job SET a = 1"\n""",
            },
            "table job: payouts writes to it; its owner is kit",
        ),
        (
            {"manilla/payouts/store.py": """SQL = f"UPDATE {table.name} AS t SET a = 1"\n"""},
            "manilla/payouts/store.py writes to the table {table.name}: name it in constants",
        ),
        (
            {"manilla/kit/crypto.py": """SQL = "UPDATE payout SET a = 1"\n"""},
            "manilla/kit/crypto.py writes to no table that an expression names",
        ),
        *(
            (
                {
                    "manilla/sql/migrations/0001.sql": "CREATE TABLE job (a int);",
                    "manilla/payouts/store.py": module,
                    **others,
                },
                "table job: payouts writes to it; its owner is kit",
            )
            for module, others in WRITES_TO_JOB
        ),
        (
            {
                "manilla/sql/migrations/0001.sql": "CREATE TABLE credential (id text)",
                "manilla/merchants/requests/log.py": """SQL = "UPDATE credential SET a = 1"\n""",
                "manilla/payouts/store.py": """delete_older(db, "credential", "at", age)\n""",
            },
            "table credential: payouts writes to it; its owner is merchants",
        ),
        (
            {"manilla/sql/migrations/0001.sql": "CREATE TABLE person (id text)"},
            "table person: mail no longer reads it",
        ),
    ],
)
def test_violation_is_reported(tree: Path, files: dict[str, str], message: str) -> None:
    write(tree, {**CLEAN, **files})
    assert any(message in line for line in found()), found()
