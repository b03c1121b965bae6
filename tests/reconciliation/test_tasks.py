"""The statements of the simulated providers are imported daily and compared with the ledger."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from datetime import UTC, datetime

import pytest

from manilla.console import sign_off
from manilla.kit.clock import LAGOS
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job
from manilla.proofs import anchors
from manilla.providers.rails import Rails
from manilla.reconciliation import days, importing, unmatched
from manilla.reconciliation.lines import day_of
from manilla.reconciliation.reports import DayReport
from manilla.reconciliation.tasks import COMPARISON, STATEMENT, StatementTasks
from tests.providers import simulated
from tests.providers import test_statements_against_simulator as statements
from tests.providers.stored_rails import adapter, stored_rails
from tests.providers.test_statements_against_simulator import every_kind, pay_out
from tests.reconciliation.ledger_samples import Account

pytestmark = pytest.mark.usefixtures("_no_statements")


@pytest.fixture
async def rails(
    db: Database, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Rails]:
    statements.use_small_pages(monkeypatch)
    async with (
        simulated.running() as setup,
        stored_rails(db, keyring, statements.accounts(setup)) as rails,
    ):
        yield rails


@every_kind
async def test_a_day_is_imported_and_differs_from_an_empty_ledger(
    db: Database, rails: Rails, kind: str
) -> None:
    sent = await pay_out(adapter(rails, kind), 4)
    tasks = StatementTasks(db, rails, lambda: nullcontext(db))
    today = day_of(datetime.now(UTC))
    for _ in range(2):
        done = await tasks.import_day(Job(0, STATEMENT, f"{kind}:{today}", 0, 0, 1))
        assert done is None
    [day] = await days.days(db, kind)
    found = await unmatched.of_day(db, day)
    # The ledger also contains other tests' transfers, which are not on any provider statement.
    listed = [each for each in found if each.trx_id in sent or each.trx_id is None]
    assert len(listed) == len(sent)
    assert {each.finding for each in listed} == {"only on the statement"}
    assert day.lines_minor == sum(each.statement_minor or 0 for each in found)
    heads = await anchors.heads(db)
    sheet = sign_off.draw(DayReport(day, None), found, "An account", heads, datetime.now(UTC))
    assert sheet.startswith(b"%PDF")


async def test_every_account_with_statements_is_scheduled_once_a_night(
    db: Database, owner: Database, rails: Rails
) -> None:
    await owner.execute("DELETE FROM job WHERE kind = $1", STATEMENT)
    tasks = StatementTasks(db, rails, lambda: nullcontext(db))
    for _ in range(2):
        await tasks.schedule()
    subjects = await db.records("SELECT subject FROM job WHERE kind = $1", STATEMENT)
    await owner.execute("DELETE FROM job WHERE kind = $1", STATEMENT)
    expected = 0 if datetime.now(LAGOS).hour < 1 else 21
    assert len(subjects) == expected


async def test_old_differences_of_an_imported_file_become_cases_at_night(
    db: Database, rails: Rails, account: Account
) -> None:
    await importing.store(db, account.name, [account.line(500_00, ago=3)])
    assert await account.cases() == []
    tasks = StatementTasks(db, rails, lambda: nullcontext(db))
    assert await tasks.compare_again(Job(0, COMPARISON, account.name, 0, 0, 1)) > 0
    assert len(await account.cases()) == 1
