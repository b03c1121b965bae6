"""The commands `manilla price-plan` and `manilla tax`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manilla.cli.fees import prices as price_commands
from manilla.kit.database.connections import Database
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of

LINES = "direction,currency,way,percent,fixed\npayment,NGN,card,1.5,100\npayout,NGN,,,25\n"


@pytest.fixture
async def environment(settings: Settings, owner: Database) -> AsyncIterator[dict[str, str]]:
    yield {**environment_of(settings), "MANILLA_MODE": "development"}
    for table in ("price_version", "price_withdrawal", "merchant_plan", "tax_rule"):
        await owner.execute(f"DELETE FROM {table}")


async def test_a_plan_is_set_listed_shown_and_assigned(
    environment: dict[str, str], tmp_path: Path
) -> None:
    command = InProcessCommand(price_commands.plans, environment)
    file = tmp_path / "lines.csv"
    file.write_text(LINES)

    about = ("--file", str(file), "--title", "Standard", "--starts", "2027-06-01T00:00")
    made = await command.printed("set", "standard", *about)
    await command.printed("assign", "standard", "--starts", "2027-01-01T00:00")

    assert made == {"plan": "standard", "version": 1, "lines": 2}
    [listed] = await command.printed("list")
    assert (listed["plan"], listed["in_force"], listed["last"]) == ("standard", None, 1)


async def test_a_plan_that_is_not_valid_is_refused_with_its_line(
    environment: dict[str, str], tmp_path: Path
) -> None:
    command = InProcessCommand(price_commands.plans, environment)
    file = tmp_path / "lines.csv"
    file.write_text(LINES.replace("1.5", "101"))

    refused = await command.refused("set", "standard", "--file", str(file), "--title", "Standard")

    assert "Line 1: The percentage must be between 0 and 100." in refused


async def test_a_tax_is_added_and_listed(environment: dict[str, str]) -> None:
    command = InProcessCommand(price_commands.taxes, environment)
    duty = ("--base", "transfer", "--fixed", "50", "--threshold", "10000")

    added = await command.printed("add", "stamp_duty", "--on", "payout settlement", *duty)

    assert added["amount"] == "₦50.00, from ₦10,000.00"
    [listed] = await command.printed("list")
    assert (listed["name"], listed["transactions"]) == ("stamp_duty", "payouts and settlements")
    refused = await command.refused("add", "stamp_duty", "--on", "payout", *duty)
    assert "for some of the same transactions" in refused
