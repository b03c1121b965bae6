"""What the API, the console and commands report if the fence has rejected a change."""

import pytest

from manilla.cells.directory import CellMap
from manilla.cells.fenced import MerchantElsewhere
from manilla.cli import wallet
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.moving.movers import Mover
from tests.web.signed_in_user import administrator


async def test_a_process_that_does_not_know_of_the_move_reports_the_service_as_unavailable(
    mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mover.move()
    monkeypatch.setattr(CellMap, "check_here", lambda *_: None)
    reply = await mover.payers["lagos"].ask()
    assert (reply.status, reply.code) == (503, "SERVICE_UNAVAILABLE")
    assert reply.headers["retry-after"] == "1"


async def test_the_first_cell_reports_to_an_administrator_that_the_merchant_lives_elsewhere(
    mover: Mover, settings: Settings
) -> None:
    await mover.move()
    lagos = mover.running("lagos")
    admin = await administrator(lagos.services, lagos.site, "elsewhere@console.example")
    await admin.step_up(lagos.services)
    changed = await admin.post(
        f"/merchants/{mover.merchant_id}/wallets/production/NGN/status", {"status": "inactive"}
    )
    assert changed.status == 409
    assert MerchantElsewhere.message.encode() in changed.body.replace(b"&#39;", b"'")
    commands = InProcessCommand(
        wallet.app,
        {**environment_of(settings), "MANILLA_DATABASE_URL": lagos.services.database_url},
    )
    where = ("--environment", "sandbox")
    text = await commands.refused("fund", str(mover.merchant_id), "NGN", "5", *where)
    assert text == MerchantElsewhere.message
