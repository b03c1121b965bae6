"""The ledger check that workers run when it is due, and its page in the console."""

import pytest

from manilla import worker
from manilla.ledger import invariants
from manilla.ledger.invariants import Invariant
from manilla.proofs import proofs
from manilla.services import Services
from tests.console.conftest import PopulatedConsole
from tests.web.signed_in_user import SignedInUser


@pytest.fixture
async def visitor(services: Services, populated: PopulatedConsole) -> SignedInUser:
    await populated.administrator.step_up(services)
    return populated.administrator


async def test_one_worker_checks_the_ledger_on_request(
    services: Services, visitor: SignedInUser
) -> None:
    prove = next(task for task in worker.periodic_tasks(services) if task.name == "prove_books")
    await prove.run()
    proved = await proofs.last(services.db)
    assert proved.is_sound
    assert not proved.is_coming
    await prove.run()
    # The next check of the ledger is due in an hour.
    assert await proofs.last(services.db) == proved

    assert (await visitor.post("/ledger/proof", {})).status == 303
    assert b"Checking the ledger" in (await visitor.get("/ledger")).body
    assert await proofs.is_mine(services.db)
    # The previous call has claimed the ledger check, so no other worker may run it.
    assert not await proofs.is_mine(services.db)
    await visitor.post("/ledger/proof", {})
    await prove.run()
    page = (await visitor.get("/ledger/proof")).body.decode()
    assert "All ledger checks passed" in page
    assert f"{len(proofs.ALL)} invariants" in page

    broken = '[{"name": "x", "promise": "Two is one.", "count": 2, "examples": [{"a": "<b>"}]}]'
    await services.db.execute("UPDATE proof SET findings = $1::jsonb", broken)
    page = (await visitor.get("/ledger")).body.decode()
    assert "1 ledger invariant violated" in page
    assert "Two is one." in page
    assert "<b>" not in page
    await proofs.ask(services.db)
    await prove.run()
    assert (await proofs.last(services.db)).is_sound


async def test_after_a_long_ledger_check_the_next_one_starts_later(services: Services) -> None:
    async def last_check(began: str, ended: str, problem: str | None = None) -> bool:
        await services.db.execute(
            "UPDATE proof SET asked_at = NULL, began_at = now() - $1::text::interval,"
            " ended_at = now() - $2::text::interval, problem = $3",
            *(began, ended, problem),
        )
        return await proofs.is_mine(services.db)

    assert not await last_check("59 minutes", "58 minutes")
    assert await last_check("61 minutes", "60 minutes")
    assert not await last_check("199 minutes", "189 minutes")
    assert await last_check("201 minutes", "191 minutes")
    # The check was aborted, or its worker ended.
    assert await last_check("61 minutes", "51 minutes", proofs.TOO_LONG)
    assert await last_check("61 minutes", "130 minutes")


@pytest.mark.parametrize("ahead", ["30 days", "-30 days"])
async def test_a_wrong_clock_of_the_database_does_not_stop_ledger_checks(
    services: Services, ahead: str
) -> None:
    await proofs.ask(services.db)
    assert await proofs.is_mine(services.db)
    # The clock jumps back to the correct time, or forward from a wrong time, during the check.
    await services.db.execute(
        "UPDATE proof SET began_at = now() + $1::text::interval, asked_at = NULL", ahead
    )
    await proofs.check_invariants(services.db)
    assert await proofs.is_mine(services.db)
    await proofs.check_invariants(services.db)
    assert not await proofs.is_mine(services.db)


async def test_no_ledger_check_begins_while_another_is_running(services: Services) -> None:
    async with services.db.transaction() as connection:
        await connection.value("SELECT pg_advisory_xact_lock_shared($1)", proofs.RUNNING_LOCK)
        await proofs.ask(services.db)
        assert not await proofs.is_mine(services.db)
    assert await proofs.is_mine(services.db)


async def test_a_running_ledger_check_holds_its_lock(services: Services) -> None:
    held = Invariant(
        "lock",
        "The lock is held.",
        "SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    )
    [found] = await invariants.check(services.db, [held], lock=proofs.RUNNING_LOCK)
    assert found.count == 1
