"""Rows of moved merchants disturb no other merchant, in neither cell."""

import pytest

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.cli import case
from manilla.kit.environment import Environment
from tests.cli.in_process import InProcessCommand
from tests.moving.movers import Mover

pytestmark = pytest.mark.long


async def test_a_case_that_arrives_is_not_mistaken_for_another_merchants(mover: Mover) -> None:
    merchants = {"lagos": mover.merchant_id}
    merchants["abuja"] = (await mover.other_merchant("abuja")).merchant.new.id
    for cell, merchant_id in merchants.items():
        await cases.open_case(
            *(mover.db(cell), CaseKind.UNKNOWN_REFERENCE, f"REF-{cell}", "Look at it."),
            merchant_id=merchant_id,
            environment=Environment.PRODUCTION,
        )
    await mover.move()
    command = InProcessCommand(case.app, mover.pair.abuja.commands.environment)
    assert "--merchant ID" in await command.refused("show", "1")
    for cell, merchant_id in merchants.items():
        shown = await command.printed("show", "1", "--merchant", str(merchant_id))
        assert (shown["merchant_id"], shown["reference"]) == (merchant_id, f"REF-{cell}")
    words = ("1", "--note", "Seen", "--merchant", str(mover.merchant_id))
    assert (await command.printed("resolve", *words))["reference"] == "REF-lagos"
    [still_open] = await cases.cases(mover.db("abuja"))
    assert still_open.merchant_id == merchants["abuja"]
