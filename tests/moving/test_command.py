"""The commands that move a merchant, or repair a recovered cell. The maps lead to the new cell."""

import json
from pathlib import Path
from urllib.parse import urlsplit

from manilla.cli.cells import cell
from manilla.kit.embedded.postgres import Cluster
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.moving.movers import Mover
from tests.moving.recovery import CellRecovery


def _commands(mover: Mover, settings: Settings, first: str, second: str) -> InProcessCommand:
    environment = {
        **environment_of(settings),
        "MANILLA_DATABASE_URL": mover.running(first).services.database_url,
        "MANILLA_MIGRATION_URL": mover.urls[first],
        "MANILLA_BASE_URL": mover.running(first).base_url,
        "MANILLA_TARGET_DATABASE_URL": mover.urls[second],
        "MANILLA_REPLICATION_URL": mover.replication_urls[first],
    }
    return InProcessCommand(cell.app, environment)


async def test_a_command_lists_what_only_a_recovered_cell_knows(
    mover: Mover, settings: Settings, cluster: Cluster, tmp_path: Path
) -> None:
    recovery = CellRecovery(cluster, mover, "lagos")
    await recovery.save()
    await mover.move()
    await recovery.recover()
    trx_id = await mover.payers["lagos"].pay_out()
    commands, merchant = _commands(mover, settings, "lagos", "abuja"), str(mover.merchant_id)
    done = await commands.run("depart", merchant, "abuja")
    assert done.exit_code == 1
    [listed] = json.loads(done.stdout.splitlines()[-1])
    assert (listed["reference"], listed["status_there"]) == (trx_id, None)
    decided = tmp_path / "decided.txt"
    decided.write_text(f"{trx_id}\n")
    departed = await commands.printed("depart", merchant, "abuja", "--decided", str(decided))
    assert departed == {"merchant_id": mover.merchant_id, "cell": "abuja", "departed": True}
    await mover.pair.look()
    homes = {row["id"]: row["cell"] for row in await commands.printed("list", "--merchants")}
    assert homes[mover.merchant_id] == "abuja"


async def test_a_command_moves_a_merchant_and_reports_the_gap(
    mover: Mover, settings: Settings
) -> None:
    commands = _commands(mover, settings, "lagos", "abuja")
    merchant = str(mover.merchant_id)
    text = await commands.refused("move", merchant, "abuja", "--continue")
    assert f"Merchant {merchant} is not being moved from this cell to abuja." in text
    moved = await commands.printed("move", merchant, "abuja")
    assert (moved["moved"], moved["cell"]) == (True, "abuja")
    assert moved["gap_seconds"] > 0
    await mover.pair.look()  # otherwise the web processes notice the move within a second
    listed = await commands.printed("list", "--merchants")
    homes = {row["id"]: row["cell"] for row in listed}
    assert homes[mover.merchant_id] == "abuja"
    refused = await commands.refused("move", merchant, "abuja")
    assert "It lives in abuja" in refused


async def test_errors_of_the_commands_name_what_to_correct(
    mover: Mover, settings: Settings, tmp_path: Path
) -> None:
    commands = _commands(mover, settings, "lagos", "abuja")
    merchant = str(mover.merchant_id)
    missing = await commands.run("depart", merchant, "abuja", "--decided", str(tmp_path / "no"))
    assert missing.exit_code == 2
    absent = urlsplit(mover.urls["abuja"])._replace(path="/no_such_database").geturl()
    refused = await commands.refused("move", merchant, "abuja", "--target-database", absent)
    assert refused.startswith("MANILLA_TARGET_DATABASE_URL: The database cannot be used")
    away = "postgresql://manilla@127.0.0.1:9/manilla"
    refused = await commands.refused("move", merchant, "abuja", "--target-database", away)
    assert refused == "MANILLA_TARGET_DATABASE_URL: The database does not respond."
    refused = await commands.refused("move", "9999999", "abuja")
    assert "There is no such merchant in this cell." in refused
