"""The receipts that wait when a merchant moves are sent by the cell that has written them."""

from pathlib import Path

import pytest

from manilla.cells.moving.stored import Step
from manilla.mail import outbox
from manilla.mail.kinds import RULES, MailKind
from manilla.mail.queries import find
from tests.moving.movers import Mover

MIGRATION = "manilla/sql/migrations/0085_receipts_of_moved_merchants.sql"


async def _write(mover: Mover) -> int:
    """Queues a receipt for a customer in lagos, and returns the email's id."""
    facts = dict.fromkeys(RULES[MailKind.RECEIPT].facts, "x") | {"way": ""}
    async with mover.db("lagos").transaction() as connection:
        [mail_id] = await outbox.put(
            *(connection, MailKind.RECEIPT, facts),
            path="/",
            merchant_id=mover.merchant_id,
            address="customer@example.com",
        )
    return mail_id


async def _state(mover: Mover, mail_id: int) -> str:
    found: str = await mover.db("lagos").value("SELECT state FROM mail WHERE id = $1", mail_id)
    return found


@pytest.mark.parametrize("step", [Step.FENCE, Step.VERIFY_AGAIN])
async def test_a_receipt_that_waits_is_sent(mover: Mover, step: Step) -> None:
    mail_id = await _write(mover)
    await mover.move_until(step)
    for cell in ("abuja", "lagos"):
        await mover.simulators[cell].run_jobs()
    assert await _state(mover, mail_id) == "sent"
    await mover.resume()
    assert await find(mover.db("abuja"), mail_id) is None


async def test_an_upgrade_sends_the_receipts_that_an_earlier_move_left(
    mover: Mover, project: Path
) -> None:
    mail_id = await _write(mover)
    await mover.move()
    await mover.owners["lagos"].execute("DELETE FROM job WHERE kind = 'mail.receipt'")
    _, statement = (project / MIGRATION).read_text().split("-- An earlier move")
    await mover.owners["lagos"].execute("-- An earlier move" + statement)
    await mover.simulators["lagos"].run_jobs()
    assert await _state(mover, mail_id) == "sent"
