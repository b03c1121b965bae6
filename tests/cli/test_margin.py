"""The command `manilla margin`: reports of fees, and plans that are tried."""

from pathlib import Path

import pytest
import typer

from manilla.cli.reconciling.margin import margin
from manilla.merchants.merchants import CommissionBearer
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.margin.conftest import production, shop, simulator, trading
from tests.margin.trading import WAY, Trading

__all__ = ["production", "shop", "simulator", "trading"]

LINES = "direction,currency,percent,fixed\npayment,NGN,1,25\n"


@pytest.fixture
async def command(settings: Settings, trading: Trading) -> InProcessCommand:
    """The command, and a merchant with a payment that lost money and a payout."""
    await trading.charge("0", CommissionBearer.MERCHANT)
    await trading.pay(1000)
    await trading.pay_out(1000)
    await trading.count()
    app = typer.Typer()
    app.command()(margin)
    return InProcessCommand(app, environment_of(settings))


def of(trading: Trading) -> tuple[str, str]:
    return "--merchant", str(trading.merchant_id)


@pytest.mark.parametrize("report", ["way", "provider", "merchant", "day", "detail"])
async def test_a_report_equals_the_ledger(
    command: InProcessCommand, trading: Trading, report: str
) -> None:
    rows = await command.printed(report, *of(trading))
    earned, paid = await trading.in_ledger()
    assert sum(round(100 * row["earned"]) for row in rows) == earned
    assert sum(round(100 * row["paid"]) for row in rows) == paid


async def test_losses_and_unknown_fees_are_listed(
    command: InProcessCommand, trading: Trading
) -> None:
    [loss] = await command.printed("losses", *of(trading))
    assert (loss["method_code"], loss["charged"]) == (WAY, 0)
    assert loss["left"] == -loss["taken"] < 0
    fees = await command.printed("fees", *of(trading))
    assert {(each["kind"], each["unknown"]) for each in fees} == {("payment", 1), ("payout", 1)}


async def test_a_plan_in_a_file_is_tried(
    command: InProcessCommand, trading: Trading, tmp_path: Path
) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(LINES)
    rows = {row["kind"]: row for row in await command.printed("try", str(file), *of(trading))}
    assert (rows["payment"]["charged"], rows["payment"]["planned"]) == (0, 35)
    assert (rows["payout"]["planned"], rows["payout"]["unknown"]) == (50, 1)


@pytest.mark.parametrize("plan", ["", "no-such-plan", "no-such-file.csv"])
async def test_an_unknown_plan_is_a_usage_error(
    command: InProcessCommand, trading: Trading, plan: str
) -> None:
    done = await command.run("try", plan)
    assert done.exit_code == 2
    assert "PLAN" in done.output
