"""The demo history, which `manilla up` creates once with the platform's own code."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from manilla_simulator.history import file, plan
from manilla_simulator.history.file import HistoryFile
from manilla_simulator.history.story import PaymentStory

from manilla.kit.clock import last_days
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.payments import figures as payments
from manilla.payouts import figures as payouts
from tests.support.instance import Instance
from tests.support.timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.long

SHARE = 0.04
NAMES = {"Demo Store", "Greenfield Academy Ikeja", "Sahel Line Logistics", "Mama Titi Kitchen"}


def ask(instance: Instance, sql: str, *values: Any) -> list[Any]:
    async def answer() -> list[Any]:
        url = msgspec.json.decode((instance.folder / "instance.json").read_bytes())["database_url"]
        db = await Database.open(url, size=1, name="tests")
        try:
            return await db.records(sql, *values)
        finally:
            await db.close()

    return asyncio.run(answer())


def wait_until(instance: Instance, is_so: Any) -> None:
    deadline = time.monotonic() + 3 * TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, (instance.folder / "logs/worker.log").read_text()
        time.sleep(0.1)


def is_complete(instance: Instance) -> bool:
    history = file.read(instance.folder)
    return history is not None and history.is_complete


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance whose history is complete, although its first run was killed before the end."""
    parent = tmp_path_factory.mktemp("history")
    folder = parent / "data"
    folder.mkdir(mode=0o700)
    few = HistoryFile(datetime.now(UTC), share=SHARE)
    (folder / file.NAME).write_bytes(msgspec.json.encode(few))
    first = Instance(folder, "--demo-history", is_first_start=True).wait()
    wait_until(first, lambda: ask(first, "SELECT count(*) FROM payment")[0][0] > 10)
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert not is_complete(first)
    # Use the same port again, because earlier notifications have it in their URL.
    again = Instance(folder, "--demo-history", port=first.port).wait()
    wait_until(again, lambda: is_complete(again))
    yield again
    again.stop()
    shutil.rmtree(parent, ignore_errors=True)


def test_history_of_three_merchants_is_complete_after_an_interruption(instance: Instance) -> None:
    history = file.read(instance.folder)
    assert history is not None
    stories = plan.stories(history.until, history.share)
    planned = [story.reference for story in stories if isinstance(story, PaymentStory)]

    names = {row["name"] for row in instance.command("merchant", "list")}
    created = [record[0] for record in ask(instance, "SELECT ref_trx FROM payment")]

    assert names == NAMES
    assert sorted(created) == sorted(planned)


def test_ledger_and_audit_log_are_sound(instance: Instance) -> None:
    assert instance.command("ledger", "check")["ok"]
    assert instance.command("audit", "verify")["broken_id"] is None


def test_every_timestamp_fits_to_its_id_and_to_the_others(instance: Instance) -> None:
    rows = ask(
        instance,
        """
        SELECT trx_id, created_at, updated_at FROM payment
        UNION ALL SELECT trx_id, created_at, updated_at FROM payout
        UNION ALL SELECT trx_id, created_at, updated_at FROM refund
        UNION ALL SELECT split_part(trx_id, '-', 1), posted_at, posted_at FROM posting""",
    )
    # After an interruption, the times of an unfinished transaction may be out of order by a day.
    backward = ask(
        instance,
        """
        SELECT * FROM (SELECT p.trx_id, p.posted_at, lag(p.posted_at) OVER (
                                PARTITION BY p.environment ORDER BY p.id) AS before
                         FROM posting p) AS each
         WHERE posted_at < before - interval '1 day'""",
    )

    # A newcomer's first purchase is in the sandbox, so the sandbox's history is filled in first.
    # The last merchant of the history signs up at its end, and gets its test money then.
    [(is_first,)] = ask(
        instance,
        """
        SELECT max(id) FILTER (WHERE environment = 'sandbox')
               < avg(id) FILTER (WHERE environment = 'production')
          FROM posting WHERE kind <> 'funding'""",
    )
    assert is_first

    began = file.read(instance.folder)
    assert began is not None
    for trx_id, created_at, updated_at in rows:
        moment = trx_ids.moment_of(trx_id)
        assert moment is not None
        assert moment - timedelta(seconds=5) < created_at <= updated_at < began.until
    assert backward == []


def test_charts_lists_and_queues_have_something_to_show(instance: Instance) -> None:
    def count(sql: str) -> int:
        return int(ask(instance, f"SELECT count(*) FROM {sql}")[0][0])

    assert count("payment WHERE status = 'success' AND environment = 'production'") > 20
    assert count("payment WHERE environment = 'sandbox'") > 0
    assert count("payout WHERE status = 'completed'") > 0
    assert count("payout WHERE status = 'failed' AND accepted_at IS NOT NULL") >= 2
    assert count("payout WHERE status = 'pending' AND provider IS NULL") == 1
    assert count("settlement WHERE state = 'paid'") == 2
    assert count("dossier WHERE state = 'submitted'") == 1
    assert count("statement_day") == 5
    assert count("day_sign_off") >= 1
    assert count("refund WHERE status = 'completed'") == 2
    assert count("refund WHERE status = 'pending' AND by_operator") == 1
    assert count("operator_case WHERE status = 'open'") == 1
    assert count("operator_case WHERE status = 'resolved'") == 1
    assert count("payout_batch WHERE status = 'done'") == 1
    assert count("payout_batch_row WHERE state IN ('faulty', 'refused')") == 2
    assert count("payout_batch_row WHERE state = 'paid'") == 4
    assert count("notification WHERE state = 'failed'") == 3
    assert count("notification WHERE state = 'delivered'") > 20
    assert count("merchant WHERE status = 'pending'") == 1


def test_no_provider_has_an_unexplained_balance(instance: Instance) -> None:
    assert [each["result"] for each in instance.command("reconcile")] == ["agrees"] * 3


def test_daily_figures_cover_the_month(instance: Instance) -> None:
    async def daily() -> list[tuple[int, int]]:
        url = msgspec.json.decode((instance.folder / "instance.json").read_bytes())["database_url"]
        db = await Database.open(url, size=1, name="tests")
        scope = Everyone(environment=Environment.PRODUCTION)
        try:
            paid_in = await payments.daily(db, scope, "NGN")
            paid_out = await payouts.daily(db, scope, "NGN")
            return [(a.count, b.count) for a, b in zip(paid_in, paid_out, strict=True)]
        finally:
            await db.close()

    days = asyncio.run(daily())
    assert len(days) == len(last_days(30))
    assert sum(paid_in > 0 for paid_in, _ in days) > 10
    total = ask(instance, "SELECT count(*) FROM payment WHERE environment = 'production'")[0][0]
    assert sum(paid_in for paid_in, _ in days) == total


def test_another_start_adds_nothing(instance: Instance) -> None:
    def size() -> list[Any]:
        return ask(
            instance, "SELECT (SELECT count(*) FROM payment), (SELECT count(*) FROM merchant)"
        )

    before = size()
    assert instance.stop() == 0
    again = Instance(instance.folder, "--demo-history").wait()
    try:
        assert "being filled in" not in again.output.read_text()
        assert size() == before
    finally:
        assert again.stop() == 0


def test_a_data_folder_without_history_never_gets_one(tmp_path: Path) -> None:
    for option in ("--no-demo-history", "--demo-history"):
        instance = Instance(tmp_path / "data", option, is_first_start=True).wait()
        try:
            names = [row["name"] for row in instance.command("merchant", "list")]
            assert names == ["Demo Store"]
            assert file.read(instance.folder) is None
            assert "being filled in" not in instance.output.read_text()
        finally:
            assert instance.stop() == 0


def test_no_payout_of_the_history_reaches_a_provider_that_somebody_connects(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    parent = tmp_path_factory.mktemp("history")
    folder = parent / "data"
    folder.mkdir(mode=0o700)
    instance = Instance(folder, "--demo-history", is_first_start=True).wait()
    wait_until(instance, lambda: ask(instance, "SELECT count(*) FROM payment")[0][0] > 10)

    instance.command("provider", "set", "providerc", "base_url=http://127.0.0.1:1")
    wait_until(instance, lambda: is_complete(instance))

    history = file.read(folder)
    assert history is not None
    planned = plan.stories(history.until, history.share)
    created = ask(instance, "SELECT count(*) FROM payment")[0][0]
    assert created < len([story for story in planned if isinstance(story, PaymentStory)])
    instance.stop()
    shutil.rmtree(parent, ignore_errors=True)
