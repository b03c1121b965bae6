"""Events continue, and the auditor's pack is correct in both cells, before and after a move."""

from manilla.cells.moving.stored import Step
from manilla.proofs import new_rows, pack, verify
from manilla.proofs.pack import PackOptions
from tests.moving.movers import Mover
from tests.moving.outcome import events, pay


async def test_a_reader_of_events_continues_in_the_new_cell(mover: Mover) -> None:
    # The second cell has used fewer transaction numbers in its events, and they must come later.
    for _ in range(2):
        await pay(mover, "lagos")
    before, cursor = await events(mover, "lagos", None)
    await pay(mover, "lagos")
    await mover.move()
    await pay(mover, "abuja")
    after, _ = await events(mover, "abuja", cursor)
    every, _ = await events(mover, "abuja", None)
    assert len(set(every)) == len(every)
    assert every[: len(before)] == before
    assert [each for each in every if each not in before] == [
        each for each in after if each not in before
    ]
    await mover.move("lagos")
    await pay(mover, "lagos")
    again, _ = await events(mover, "lagos", None)
    assert again[: len(every)] == every
    assert len(again) > len(every)


async def _broken(mover: Mover, cell: str) -> list[str]:
    found = await pack.collect(mover.urls[cell], PackOptions(is_development=True))
    return [table.name for table in found.tables if getattr(table, "count", 0)]


async def test_the_auditors_pack_is_correct_in_both_cells(mover: Mover) -> None:
    await pay(mover, "lagos")
    await mover.payers["lagos"].pay_out()
    await mover.move_until(Step.COPY)
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []
    await mover.resume()
    await pay(mover, "abuja")
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []
        assert await _broken(mover, cell) == []


async def test_a_pack_with_a_seal_checks_all_transactions_if_a_merchant_has_arrived(
    mover: Mover,
) -> None:
    await pay(mover, "lagos")
    packed = await pack.collect(mover.urls["abuja"], PackOptions(is_development=True))
    seal, db = verify.Seal.read(packed.seal), mover.owners["abuja"]
    async with db.read_only() as connection:
        assert await new_rows.find(connection, seal) is not None
    await mover.move()
    async with db.read_only() as connection:
        assert await new_rows.find(connection, seal) is None


async def test_a_changed_posting_that_arrived_is_found(mover: Mover) -> None:
    await mover.move()
    owner = mover.owners["abuja"]
    await owner.execute("ALTER TABLE posting DISABLE TRIGGER append_only")
    await owner.execute("UPDATE posting SET reason = 'changed'")
    await owner.execute("ALTER TABLE posting ENABLE TRIGGER append_only")
    verified = await verify.run(mover.urls["abuja"], [], None)
    assert [finding.check for finding in verified.findings] == ["content"]
