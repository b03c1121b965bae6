"""`manilla cell move` moves a merchant, and the maps lead to its new cell."""

from manilla.cli.cells import cell
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.moving.movers import Mover, replication_url


def _commands(mover: Mover, settings: Settings, first: str, second: str) -> InProcessCommand:
    environment = {
        **environment_of(settings),
        "MANILLA_DATABASE_URL": mover.running(first).services.database_url,
        "MANILLA_MIGRATION_URL": mover.urls[first],
        "MANILLA_BASE_URL": mover.running(first).base_url,
        "MANILLA_TARGET_DATABASE_URL": mover.urls[second],
        "MANILLA_REPLICATION_URL": replication_url(mover.urls[first]),
    }
    return InProcessCommand(cell.app, environment)


async def test_a_command_moves_a_merchant_and_reports_the_gap(
    mover: Mover, settings: Settings
) -> None:
    commands = _commands(mover, settings, "lagos", "abuja")
    merchant = str(mover.merchant_id)
    text = await commands.refused("move", merchant, "abuja", "--continue")
    assert text == f"Merchant {merchant} is not being moved to abuja."
    moved = await commands.printed("move", merchant, "abuja")
    assert (moved["moved"], moved["cell"]) == (True, "abuja")
    assert moved["gap_seconds"] > 0
    await mover.pair.look()  # otherwise the web processes notice the move within a second
    listed = await commands.printed("list", "--merchants")
    homes = {row["id"]: row["cell"] for row in listed}
    assert homes[mover.merchant_id] == "abuja"
    refused = await commands.refused("move", merchant, "abuja")
    assert "It lives in abuja" in refused
