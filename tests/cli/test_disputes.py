"""The command `manilla dispute`: it lists what ends first, records disputes, releases answers."""

import pytest

from manilla.approvals import approvals
from manilla.cli import dispute as dispute_command
from manilla.disputes.dispute import AnswerState
from manilla.platform import settings as platform
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.disputes.conftest import disputes, production, shop, simulator
from tests.disputes.steps import LATER, Disputes, naira

__all__ = ["disputes", "production", "shop", "simulator"]

NOTE = ("--note", "Seen in the provider's dashboard")


@pytest.fixture
def command(settings: Settings) -> InProcessCommand:
    return InProcessCommand(dispute_command.app, environment_of(settings))


async def test_a_dispute_is_recorded_listed_shown_and_lost(
    command: InProcessCommand, disputes: Disputes
) -> None:
    paid = await disputes.pay()
    words = ("record", paid.started.trx_id, "--reference", "CB-1", "--amount", "600.00", *NOTE)
    recorded = await command.printed(*words, "--respond-by", "2098-12-31T15:00")
    assert (recorded["status"], recorded["withheld"]) == ("needs_response", 600)
    assert recorded["respond_by"] == "2098-12-31T14:00:00.000000Z"
    later = await disputes.open(await disputes.pay(), respond_by=LATER)

    of_merchant = ("--merchant", str(disputes.tenant.merchant_id))
    due = await command.printed("list", "--status", "needs_response", *of_merchant)
    assert [each["trx_id"] for each in due] == [recorded["trx_id"], later.trx_id]
    shown = await command.printed("show", recorded["trx_id"])
    assert [each["event"] for each in shown["history"]] == ["dispute_opened"]

    lost = await command.printed(*words, "--status", "lost")
    assert (lost["trx_id"], lost["status"], lost["taken"]) == (
        recorded["trx_id"],
        "lost",
        600,
    )


async def test_a_record_above_the_limit_prints_that_an_approval_was_requested(
    command: InProcessCommand, disputes: Disputes
) -> None:
    paid = await disputes.pay()
    dispute = await disputes.open(paid)
    words = ("record", paid.started.trx_id, "--reference", dispute.provider_reference, *NOTE)
    won = (*words, "--amount", "1000", "--status", "won")
    await platform.change(disputes.db, "adjustment_limits", "NGN:999")
    try:
        asked = await command.printed(*won)
        withheld = await command.printed(*words, "--amount", "1000", "--reason", "Fraud")
    finally:
        await platform.change(disputes.db, "adjustment_limits", "NGN:10000000")
    approval = await approvals.find(disputes.db, asked["approval"])
    assert (approval.kind, approval.subject) == ("dispute_record", f"dispute:{dispute.trx_id}")
    assert (withheld["status"], withheld["withheld"]) == ("needs_response", 1000)
    # The command records it alone, because the limit is higher now.
    assert (await command.printed(*won))["status"] == "won"


async def test_an_answer_is_released_once(command: InProcessCommand, disputes: Disputes) -> None:
    dispute = await disputes.open(await disputes.pay())
    await disputes.service.accept(disputes.tenant, dispute.trx_id)
    released = await command.printed("release", dispute.trx_id, *NOTE)
    assert (released["answer"], released["accepted"]) == ("sent", 1000)
    assert (await command.run("release", dispute.trx_id, *NOTE)).exit_code != 0
    assert (await disputes.now(dispute)).answer is AnswerState.SENT


@pytest.mark.parametrize("charge", ["TXN-unknown", "nothing"])
async def test_unknown_charge_records_nothing(
    command: InProcessCommand, disputes: Disputes, charge: str
) -> None:
    words = ("record", charge, "--reference", "CB-2", "--amount", "1", *NOTE)
    assert (await command.run(*words)).exit_code != 0
    assert naira("0").minor == await disputes.shop.account("withheld")
