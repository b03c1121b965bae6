"""A cell that was recovered to a moment before a move records that the merchant has left."""

from typing import Any

import msgspec
import pytest

from manilla.cells.moving import differences, fence, forced_departure, replication
from manilla.cells.moving import move as moves
from manilla.cells.moving.fence import CannotMove
from manilla.cells.moving.forced_departure import UndecidedDifferences
from manilla.cells.moving.stored import Step
from manilla.kit.embedded.postgres import Cluster
from tests.moving.movers import Killed, Mover, replication_url
from tests.moving.recovery import CellRecovery


async def _do_nothing(_step: Step, _seconds: float) -> None:
    return


async def _depart(mover: Mover, *decided: str, to: str = "abuja") -> UndecidedDifferences | None:
    found = await forced_departure.depart(
        mover.cells(to), mover.merchant_id, to, decided, _do_nothing
    )
    await mover.pair.look()
    return found


async def _pay(mover: Mover, cell: str) -> str:
    trx_id = await mover.payers[cell].pay_out()
    await mover.payers[cell].until(trx_id, "completed")
    return trx_id


async def _move_and_recover(mover: Mover, cluster: Cluster) -> list[str]:
    """Recovers lagos to a moment before a move. Returns payouts from before, between and after."""
    payouts = [await _pay(mover, "lagos"), await mover.payers["lagos"].pay_out()]
    recovery = CellRecovery(cluster, mover, "lagos")
    await recovery.save()
    await mover.payers["lagos"].until(payouts[1], "completed")
    await mover.move()
    payouts.append(await _pay(mover, "abuja"))
    await recovery.recover()
    return payouts


async def _check(mover: Mover, payouts: list[str]) -> None:
    assert await fence.state(mover.owners["lagos"], mover.merchant_id) == "left"
    assert (await mover.payers["lagos"].verify(payouts[0])).status == 503
    for trx_id in payouts:
        assert (await mover.payers["abuja"].verify(trx_id)).json["status"] == "success"
    await mover.simulators["lagos"].run_jobs()
    assert len(await mover.payers["lagos"].transfers()) == len(payouts)
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []
    assert await mover.is_clean()


async def test_a_recovered_cell_lets_the_merchant_go(mover: Mover, cluster: Cluster) -> None:
    payouts = await _move_and_recover(mover, cluster)
    for _ in range(2):  # the command can run again
        assert await _depart(mover) is None
        await _check(mover, payouts)
    actions = "SELECT count(*) FROM audit WHERE action IN ('cell.depart', 'cell.move.depart')"
    assert await mover.db("lagos").number(actions) == 2
    await mover.move("lagos")
    for trx_id in payouts:
        assert (await mover.payers["lagos"].verify(trx_id)).json["status"] == "success"
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []


async def test_a_person_decides_on_what_only_the_recovered_cell_knows(
    mover: Mover, cluster: Cluster
) -> None:
    payouts = await _move_and_recover(mover, cluster)
    accepted = await mover.payers["lagos"].pay_out()
    found = await _depart(mover)
    assert found is not None
    [listed] = found.listed
    assert (listed.reference, listed.status_here, listed.status_there) == (
        *(accepted, "pending"),
        None,
    )
    # The merchant lives in the other cell, so this cell stops in any case.
    assert (await mover.payers["lagos"].ask()).status == 503
    await mover.simulators["lagos"].run_jobs()
    assert len(await mover.payers["lagos"].transfers()) == len(payouts)
    with pytest.raises(CannotMove, match="manilla cell depart"):
        await mover.resume()
    assert await _depart(mover, accepted) is None
    await _check(mover, payouts)
    with pytest.raises(CannotMove, match="other postings"):
        await mover.move("lagos")


async def test_a_transfer_that_the_recovered_cell_sent_is_listed(
    mover: Mover, cluster: Cluster
) -> None:
    payouts = await _move_and_recover(mover, cluster)
    await mover.payers["lagos"].until(payouts[1], "completed")
    found = await _depart(mover)
    assert found is not None
    [listed] = found.listed
    assert (listed.reference, listed.status_there) == (payouts[1], "completed")
    assert "sent" in listed.only_here


@pytest.mark.parametrize("where", ["drain", "_leave", "unpublish", "find", "permitted", "departed"])
async def test_the_command_continues_after_a_crash(
    mover: Mover, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    payouts = await _move_and_recover(mover, cluster)

    async def crash(*_given: Any, **_options: Any) -> None:
        raise Killed

    async def crash_at_the_end(step: Step, _seconds: float) -> None:
        if step is Step.VERIFY_AGAIN:
            raise Killed

    owner = {
        "drain": fence,
        "_leave": forced_departure,
        "unpublish": replication,
        "find": differences,
        "permitted": moves,
    }.get(where)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        if owner is not None:
            patch.setattr(owner, "run_steps" if where == "permitted" else where, crash)
        await forced_departure.depart(
            mover.cells("abuja"), mover.merchant_id, "abuja", (), crash_at_the_end
        )
    assert await _depart(mover) is None
    await _check(mover, payouts)


@pytest.mark.parametrize("step", [Step.VERIFY, Step.COPY, Step.CATCH_UP, Step.ACTIVATE])
async def test_a_cell_that_was_recovered_to_a_step_of_the_move_lets_the_merchant_go(
    mover: Mover, cluster: Cluster, step: Step
) -> None:
    payouts = [await _pay(mover, "lagos")]
    await mover.move_until(step)
    recovery = CellRecovery(cluster, mover, "lagos")
    await recovery.save()
    await mover.resume()
    payouts.append(await _pay(mover, "abuja"))
    await recovery.recover()
    assert await _depart(mover) is None
    await _check(mover, payouts)


async def test_a_merchant_that_the_second_cell_lost_moves_from_its_old_database(
    mover: Mover, cluster: Cluster
) -> None:
    """The second cell was recovered to a moment before the merchant arrived."""
    payouts = [await _pay(mover, "lagos")]
    recovery = CellRecovery(cluster, mover, "abuja")
    await recovery.save()
    await mover.move()
    payouts += [await _pay(mover, "abuja"), await mover.payers["abuja"].pay_out()]
    await recovery.recover()
    for cell in ("lagos", "abuja"):
        assert (await mover.payers[cell].ask()).status != 200
    with pytest.raises(CannotMove, match="abuja does not have the merchant"):
        await _depart(mover)
    async with recovery.opened_old() as old:
        back = msgspec.structs.replace(
            mover.cells("lagos"),
            source=old,
            source_url=replication_url(recovery.old_url),
            urls=(recovery.old_url, mover.urls["lagos"]),
        )
        begun = await moves.begin(back, mover.merchant_id, "lagos")
        await moves.run_steps(back, begun, _do_nothing)
    await mover.pair.look()
    for trx_id in payouts:
        await mover.payers["lagos"].until(trx_id, "completed")
    assert len(await mover.payers["lagos"].transfers()) == len(payouts)
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []
    await mover.move()  # the recovered cell can get the merchant again
    assert (await mover.payers["abuja"].verify(payouts[1])).json["status"] == "success"


async def test_a_merchant_that_the_other_cell_does_not_have_stays(mover: Mover) -> None:
    with pytest.raises(CannotMove, match="abuja does not have the merchant"):
        await _depart(mover)
    assert (await mover.payers["lagos"].ask()).status == 200


async def test_only_the_recovered_cell_lets_the_merchant_go(mover: Mover, cluster: Cluster) -> None:
    """The merchant returned to lagos, and then abuja was recovered to the time before."""
    await mover.move()
    recovery = CellRecovery(cluster, mover, "abuja")
    await recovery.save()
    await mover.move("lagos")
    await recovery.recover()
    with pytest.raises(CannotMove, match="Run `manilla cell depart` in abuja"):
        await _depart(mover)
    assert await _depart(mover, to="lagos") is None
    assert (await mover.payers["lagos"].ask()).status == 200
    assert (await mover.payers["abuja"].ask()).status == 503
