"""Events continue, and the auditor's pack is correct in both cells, before and after a move."""

from typing import Any

import pytest

from manilla.cells.moving.stored import Step
from manilla.proofs import new_rows, pack, verify
from manilla.proofs.pack import PackOptions
from tests.moving.movers import Mover

EVENTS = "/api/v1/events?limit=2"


async def _events(mover: Mover, cell: str, cursor: str | None) -> tuple[list[Any], str | None]:
    """Returns all events after a cursor, and the cursor after them."""
    found: list[Any] = []
    while True:
        path = EVENTS if cursor is None else f"{EVENTS}&cursor={cursor}"
        reply = await mover.payers[cell].merchant.get(path)
        assert reply.status == 200, reply.body
        if not reply.json["data"]:
            return found, cursor
        found += [event["id"] for event in reply.json["data"]]
        cursor = reply.json["next_cursor"] or cursor
        if reply.json["next_cursor"] is None:
            return found, cursor


async def _pay(mover: Mover, cell: str) -> None:
    trx_id = await mover.payers[cell].pay_out()
    await mover.payers[cell].until(trx_id, "completed")


@pytest.mark.long
async def test_a_reader_of_events_continues_in_the_new_cell(mover: Mover) -> None:
    # The second cell has used fewer transaction numbers in its events, and they must come later.
    for _ in range(2):
        await _pay(mover, "lagos")
    before, cursor = await _events(mover, "lagos", None)
    await _pay(mover, "lagos")
    await mover.move()
    await _pay(mover, "abuja")
    after, _ = await _events(mover, "abuja", cursor)
    every, _ = await _events(mover, "abuja", None)
    assert len(set(every)) == len(every)
    assert every[: len(before)] == before
    assert [each for each in every if each not in before] == [
        each for each in after if each not in before
    ]
    await mover.move("lagos")
    await _pay(mover, "lagos")
    again, _ = await _events(mover, "lagos", None)
    assert again[: len(every)] == every
    assert len(again) > len(every)


async def _broken(mover: Mover, cell: str) -> list[str]:
    found = await pack.collect(mover.urls[cell], PackOptions(is_development=True))
    return [table.name for table in found.tables if getattr(table, "count", 0)]


@pytest.mark.long
async def test_the_auditors_pack_is_correct_in_both_cells(mover: Mover) -> None:
    await _pay(mover, "lagos")
    await mover.payers["lagos"].pay_out()
    await mover.move_until(Step.COPY)
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []
    await mover.resume()
    await _pay(mover, "abuja")
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []
        assert await _broken(mover, cell) == []


@pytest.mark.long
async def test_a_pack_with_a_seal_checks_all_transactions_if_a_merchant_has_arrived(
    mover: Mover,
) -> None:
    await _pay(mover, "lagos")
    packed = await pack.collect(mover.urls["abuja"], PackOptions(is_development=True))
    seal, db = verify.Seal.read(packed.seal), mover.owners["abuja"]
    async with db.read_only() as connection:
        assert await new_rows.find(connection, seal) is not None
    await mover.move()
    async with db.read_only() as connection:
        assert await new_rows.find(connection, seal) is None


@pytest.mark.long
async def test_a_changed_posting_that_arrived_is_found(mover: Mover) -> None:
    await mover.move()
    owner = mover.owners["abuja"]
    await owner.execute("ALTER TABLE posting DISABLE TRIGGER append_only")
    await owner.execute("UPDATE posting SET reason = 'changed'")
    await owner.execute("ALTER TABLE posting ENABLE TRIGGER append_only")
    verified = await verify.run(mover.urls["abuja"], [], None)
    assert [finding.check for finding in verified.findings] == ["content"]
