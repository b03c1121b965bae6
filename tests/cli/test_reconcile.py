"""`manilla reconcile import`, `statement` and `sign-off`, with one movement in the ledger."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from manilla.kit.clock import LAGOS
from tests.support.command import manilla
from tests.support.instance import Instance

pytestmark = pytest.mark.long

ACCOUNT = "providera"
HEAD = "booked_at,amount,reference\n"


@pytest.fixture(scope="module")
async def instance(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Instance]:
    started = Instance(tmp_path_factory.mktemp("reconcile") / "data").wait()
    yield started
    assert started.stop() == 0


async def _days(instance: Instance, code: int) -> dict[str, Any]:
    words = ("reconcile", "statement", ACCOUNT, "--day", _today(), "--json")
    run = await asyncio.to_thread(manilla, *words, "--data", str(instance.folder))
    assert run.returncode == code, run.stderr
    found: dict[str, Any] = json.loads(run.stdout, parse_float=Decimal)
    return found


def _today() -> str:
    return datetime.now(LAGOS).date().isoformat()


async def test_a_file_is_imported_completely_or_not_at_all(
    instance: Instance, tmp_path: Path
) -> None:
    top_up = ("settle", "top_up", ACCOUNT, "250", "--note", "opening balance")
    settled = await asyncio.to_thread(instance.command, *top_up)
    now = datetime.now(LAGOS).isoformat()
    file = tmp_path / "statement.csv"
    good = f"{HEAD}{now},250,{settled['trx_id']}\n"

    file.write_text(f"{good}{now},x,\n")
    words = ("reconcile", "import", ACCOUNT, str(file))
    refused = await asyncio.to_thread(manilla, *words, "--data", str(instance.folder))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "line 3:" in refused.stderr
    assert await _days(instance, 0) == {"days": [], "unmatched": []}

    file.write_text(good)
    imported = await asyncio.to_thread(instance.command, *words)
    assert imported == {"lines": 1, "new": 1, "changed": 0}
    [day] = (await _days(instance, 0))["days"]
    assert (day["statement"], day["ledger"], day["difference"]) == (250, 250, 0)
    assert (day["provider_balance"], day["provider_balance_from"]) == (10_000_000, "the provider")
    assert day["provider_balance_at"] is not None

    file.write_text(f"{good}{now},-7,\n")
    imported = await asyncio.to_thread(instance.command, *words)
    assert imported == {"lines": 2, "new": 1, "changed": 0}
    [unmatched] = (await _days(instance, 1))["unmatched"]
    assert (unmatched["finding"], unmatched["statement"]) == ("only on the statement", -7)
    proved = await asyncio.to_thread(manilla, "ledger", "check", "--data", str(instance.folder))
    assert proved.returncode == 0, proved.stdout


async def test_a_day_is_signed_with_a_note_if_something_does_not_match(
    instance: Instance, tmp_path: Path
) -> None:
    yesterday = (datetime.now(LAGOS) - timedelta(days=1)).date().isoformat()
    file = tmp_path / "statement.csv"
    file.write_text(f"{HEAD}{yesterday},-9,\n")
    await asyncio.to_thread(instance.command, "reconcile", "import", ACCOUNT, str(file))
    words = ("reconcile", "sign-off", ACCOUNT)
    for given, reason in (
        ((yesterday,), "1 unmatched"),
        ((_today(), "--note", "too early"), "not over"),
        (("2020-01-31",), "not imported"),
    ):
        run = await asyncio.to_thread(manilla, *words, *given, "--data", str(instance.folder))
        assert (run.returncode, run.stdout) == (1, ""), given
        assert reason in run.stderr
    signed = await asyncio.to_thread(instance.command, *words, yesterday, "--note", "A known fee")
    assert (signed["sign_off"], signed["note"]) == ("signed", "A known fee")
    assert signed["signed_by"]

    file.write_text(f"{HEAD}{yesterday},-3,\n")
    await asyncio.to_thread(instance.command, "reconcile", "import", ACCOUNT, str(file))
    shown = ("reconcile", "statement", ACCOUNT, "--day", yesterday, "--json")
    run = await asyncio.to_thread(manilla, *shown, "--data", str(instance.folder))
    [day] = json.loads(run.stdout)["days"]
    assert (day["sign_off"], day["note"]) == ("changed after sign-off", "A known fee")
