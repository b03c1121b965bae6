"""The commands `manilla price-plan` and `manilla tax`."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from manilla.cli.fees import prices
from manilla.kit.database.connections import Database
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of

LINES = "direction,currency,percent\npayment,NGN,1.5\n"
LATER = ("--starts", f"{datetime.now(UTC) + timedelta(1):%Y-%m-%dT%H:%M}")


@pytest.fixture
async def plans(settings: Settings, owner: Database) -> AsyncIterator[InProcessCommand]:
    environment = {**environment_of(settings), "MANILLA_MODE": "development"}
    yield InProcessCommand(prices.plans, environment)
    for table in ("price_version", "price_withdrawal", "merchant_plan", "tax_rule"):
        await owner.execute(f"DELETE FROM {table}")


def _set(file: Path) -> tuple[str, ...]:
    return "set", "standard", "--file", str(file), "--title", "Standard", *LATER


async def test_a_plan_is_set_and_shown_as_it_was_read(
    plans: InProcessCommand, tmp_path: Path
) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(LINES, "utf-8-sig")

    assert (await plans.printed(*_set(file)))["version"] == 1
    assert (await plans.printed(*_set(file)))["version"] == 2

    [listed] = await plans.printed("list")
    assert (listed["plan"], listed["in_force"], listed["last"]) == ("standard", None, 2)
    shown = (await plans.run("show", "standard")).stdout
    assert "payment,NGN,,,,1.5," in shown


async def test_a_planned_version_is_withdrawn(plans: InProcessCommand, tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(LINES)
    await plans.printed(*_set(file))
    assert (await plans.printed("withdraw", "standard", "1"))["withdrawn"] == 1
    assert "payment" not in (await plans.run("show", "standard")).stdout
    assert "withdrawn already" in await plans.refused("withdraw", "standard", "1")


async def test_a_file_that_cannot_be_read_is_refused(
    plans: InProcessCommand, tmp_path: Path
) -> None:
    file = tmp_path / "plan.csv"
    assert "cannot be read" in await plans.refused(*_set(file))
    file.write_bytes(b"\xff\xfe")
    assert "cannot be read" in await plans.refused(*_set(file))


async def test_a_tax_is_added_and_listed(plans: InProcessCommand) -> None:
    taxes = InProcessCommand(prices.taxes, plans.environment)
    await taxes.printed("add", "vat", "--on", "payment payout", "--percent", "7.5", *LATER)

    [listed] = await taxes.printed("list")

    assert listed["name"] == "vat"
