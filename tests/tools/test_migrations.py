"""`tools.migrations` finds each type of violation, and reports nothing for correct migrations.

`tests/sql/test_migrations.py` runs the same examples on PostgreSQL.
"""

from pathlib import Path

import pytest

from manilla.sql import runner
from tests.tools.migration_examples import EXAMPLES, Example
from tools import migrations, releases
from tools.migrations import History

BASELINE = "CREATE DOMAIN currency AS text CHECK (VALUE ~ '^[A-Z]{3}$');"


def found(sql: str, before: str = "") -> list[str]:
    """Returns the rules that a migration breaks, in a project that uses every name but one."""
    history = History()
    for earlier in (BASELINE, before):
        migrations.check(earlier, history, lambda name: True)
    return [each.rule for each in migrations.check(sql, history, lambda name: name != "unused")]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.bad)
def test_a_migration_that_blocks_requests_is_rejected(example: Example) -> None:
    assert found(example.bad, example.before) == [example.rule]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.good)
def test_a_migration_that_follows_the_rules_is_accepted(example: Example) -> None:
    assert found(example.good, example.before) == []


def test_all_migrations_follow_the_rules() -> None:
    assert [*migrations.find_problems(), *migrations.find_dropped_functions()] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose migrations are checked instead of the project's."""
    (tmp_path / "0042_baseline.sql").write_text(BASELINE)
    monkeypatch.setattr(runner, "FOLDER", tmp_path)
    monkeypatch.setattr(migrations, "FUNCTIONS", tmp_path)
    return tmp_path


def test_a_violation_names_its_file_and_rule(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "0070_marks.sql").write_text("CREATE INDEX mark ON payment (trx_id);")
    with pytest.raises(SystemExit, match="1"):
        migrations.main()
    line = "0070_marks.sql: [index] blocks writes to payment: use CONCURRENTLY\n"
    assert capsys.readouterr().out == line


def test_a_dropped_function_is_rejected(folder: Path) -> None:
    (folder / "rate_take.sql").write_text("DROP FUNCTION IF EXISTS rate_take(jsonb);")
    assert "[removal]" in next(migrations.find_dropped_functions())


def test_an_exception_that_is_not_needed_is_reported(folder: Path) -> None:
    (folder / "0043_events.sql").write_text("ALTER TABLE payment ADD mark text;")
    [line] = migrations.find_problems()
    assert line == "0043_events.sql: no longer breaks the rule removal: remove it from ACCEPTED"


def test_names_in_the_code_of_the_previous_release_are_in_use(project: Path) -> None:
    if not releases.newest(project):
        pytest.skip("This clone's history does not contain a release.")
    assert migrations.is_used_before("payout_attempt")
    assert not migrations.is_used_before("name_that_no_release_contains")


def test_every_name_is_in_use_if_the_history_contains_no_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(releases, "newest", lambda project: {})
    assert migrations.is_used_before("name_that_no_release_contains")
