"""Each rule against double payment is needed: without the rule, a test scenario fails.

A scenario returns True if no payout was paid twice. If two rules protect against the same scenario,
each rule alone is sufficient, and the scenario fails only without both rules.
"""

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from manilla.beneficiaries import beneficiary
from manilla.beneficiaries.beneficiary import Beneficiary
from manilla.kit.errors import Refusal
from manilla.kit.jobs.runner import Runner
from manilla.merchants import outgoing
from manilla.payouts import attempts, decisions, failover, left_rails, states, tasks
from manilla.payouts.tasks import PayoutTasks
from manilla.platform import settings as platform
from manilla.providers import wire
from manilla.providers.port import Direction, Done, ResolvedAccount
from manilla.transfers import doubts, machine, sending
from manilla.transfers.events import Source, TransferEvent, TransferResult
from manilla.transfers.sending import PAYOUTS, TransferTable
from tests.payouts.model import Killed
from tests.payouts.model_machine import dying_at
from tests.payouts.payout_merchant import ACCOUNT
from tests.payouts.routing import stalling
from tests.payouts.routing.routed import BAD_ACCOUNT, REFUSED, RoutedPayouts
from tests.payouts.routing.stalling import StalledJob
from tests.payouts.test_states import send_webhook
from tests.support.client import Site

FIRST, SECOND = "providera", "providerb"


class Scene:
    """The payouts of one test with several rails, and workers that can stall."""

    def __init__(self, routed: RoutedPayouts, site: Site) -> None:
        self.routed = routed
        self.site = site
        self.db = routed.services.db
        self.runner: Runner = stalling.runner(routed.services)

    async def stall(self, trx_id: str, step: str) -> StalledJob:
        stalled = StalledJob(self.runner, await self.routed.claim(trx_id), step)
        assert await stalled.reached()
        return stalled

    async def work(self, trx_id: str) -> None:
        await self.runner._do(await self.routed.claim(trx_id))

    async def rejected(self) -> tuple[str, StalledJob]:
        """Creates a payout that the first rail rejected. Its worker has chosen a new rail."""
        await self.routed.plan("a", REFUSED)
        trx_id = await self.routed.pay_out()
        return trx_id, await self.stall(trx_id, stalling.AFTER_ROUTE)

    async def unsent(self) -> tuple[str, StalledJob]:
        """Creates a payout on a rail that is down. Its worker chose the next rail and stalls."""
        trx_id = await self.routed.pay_out()
        self.first_rail.is_down = True
        stalled = await self.stall(trx_id, stalling.AFTER_ROUTE)
        self.first_rail.reset()
        return trx_id, stalled

    @property
    def first_rail(self) -> Any:
        return self.routed.services.rails.health.rail(FIRST, Direction.PAY_OUT)

    async def would_move(self, stalled: StalledJob) -> bool:
        """Returns whether the worker would move the payout. The move is rolled back."""
        with dying_at("before_move_commit"):
            try:
                await stalled.resume()
            except Killed:
                return True
        return False

    async def give_job_back(self, stalled: StalledJob) -> None:
        """Simulates a broken fence: the stalled worker keeps a job that another worker has run."""
        job = stalled.job
        await self.db.execute(
            """
            INSERT INTO job (merchant_id, kind, subject, due_at, fence, lease, leased_until)
            VALUES ($1, $2, $3, now(), $4, $4, now() + interval '1 minute')
                ON CONFLICT (merchant_id, kind, subject) DO UPDATE
               SET fence = $4, lease = $4, leased_until = now() + interval '1 minute'""",
            *(job.merchant_id, job.kind, job.subject, job.fence),
        )

    async def is_kept(self, trx_id: str) -> bool:
        """Returns whether the payout stayed on its first rail, and no other rail received it."""
        await self.routed.simulator.run_jobs()
        is_there = await self.routed.rails(trx_id) == [FIRST]
        return is_there and set(await self.routed.transfers(trx_id)) <= {"a"}

    async def is_paid_once(self, trx_id: str) -> bool:
        await self.routed.simulator.run_jobs()
        return len(await self.routed.transfers(trx_id)) <= 1

    async def is_not_refunded(self, trx_id: str) -> bool:
        return (await self.routed.payer.payout(trx_id)).status == "pending"


Scenario = Callable[[Scene], Awaitable[bool]]


# The following scenarios test when an attempt counts as failed.


async def _ended_meanwhile(scene: Scene) -> bool:
    trx_id, stalled = await scene.rejected()
    event = TransferResult(TransferEvent.FAILED, Source.STATUS_QUERY)
    await states.apply_result(scene.db, stalled.job.merchant_id, trx_id, event)
    # The status change has also ended the job. Restore the job, to simulate a broken fence.
    await scene.give_job_back(stalled)
    return not await scene.would_move(stalled)


async def _moved_meanwhile(scene: Scene) -> bool:
    trx_id, stalled = await scene.rejected()
    change = "UPDATE payout SET provider = $2 WHERE trx_id = $1"
    await scene.db.execute(change, trx_id, SECOND)
    is_moved = await scene.would_move(stalled)
    await scene.db.execute(change, trx_id, FIRST)
    return not is_moved


async def _found_to_be_sent(scene: Scene) -> bool:
    """The database was restored from a backup, and the transfer was sent after that backup."""
    trx_id, stalled = await scene.unsent()
    await scene.routed.send_directly("a", trx_id)
    await sending.note_sent(scene.db, PAYOUTS, stalled.job.merchant_id, trx_id)
    await stalled.resume()
    return await scene.is_paid_once(trx_id)


async def _sent_again(scene: Scene) -> bool:
    """Another worker has sent the transfer again, and the rail has accepted the transfer."""
    trx_id, stalled = await scene.rejected()
    await scene.work(trx_id)
    await scene.give_job_back(stalled)
    await stalled.resume()
    return await scene.is_paid_once(trx_id)


async def _on_hold(scene: Scene) -> bool:
    trx_id, stalled = await scene.unsent()
    await outgoing.hold_all(scene.db)
    await stalled.resume()
    return await scene.is_kept(trx_id)


async def _lost_its_job(scene: Scene) -> bool:
    trx_id, stalled = await scene.rejected()
    other = await scene.stall(trx_id, stalling.AFTER_FIND)
    await stalled.resume()
    is_moved = await scene.routed.rails(trx_id) != [FIRST]
    await other.resume()
    return not is_moved


async def _webhook_contradicts(scene: Scene) -> bool:
    trx_id, stalled = await scene.rejected()
    await scene.routed.send_directly("a", trx_id)
    assert (await send_webhook(scene.site, "a", trx_id, "success")).status == 200
    # The status query to the first rail fails when the worker is about to use the next rail.
    await scene.routed.plan("a", {"call": "transfer_status", "fault": "5xx_before", "times": None})
    await stalled.resume()
    return await scene.is_kept(trx_id)


async def _left_rail_has_it(scene: Scene) -> bool:
    """The first rail reports that it has the transfer, while the second rail rejects it."""
    trx_id, stalled = await scene.rejected()
    await stalled.resume()
    await scene.routed.plan("b", REFUSED)
    second = await scene.stall(trx_id, stalling.AFTER_ROUTE)
    await scene.routed.send_directly("a", trx_id)
    assert (await send_webhook(scene.site, "a", trx_id, "success")).status == 200
    return not await scene.would_move(second)


async def _rejected_but_paid(scene: Scene) -> bool:
    """A webhook arrives while the worker saves the same rail's rejection."""
    await scene.routed.plan("a", BAD_ACCOUNT)
    trx_id = await scene.routed.pay_out()
    stalled = await scene.stall(trx_id, stalling.BEFORE_SETTLE)
    assert (await send_webhook(scene.site, "a", trx_id, "success")).status == 200
    await stalled.resume()
    return await scene.is_not_refunded(trx_id)


async def _failed_but_left_rail_pays(scene: Scene) -> bool:
    trx_id, stalled = await scene.rejected()
    await stalled.resume()
    await scene.work(trx_id)
    await scene.routed.payer.settle("b", trx_id, "failed")
    second = await scene.stall(trx_id, stalling.BEFORE_SETTLE)
    assert (await send_webhook(scene.site, "a", trx_id, "success")).status == 200
    await second.resume()
    return await scene.is_not_refunded(trx_id)


# The following scenarios test responses that end an attempt.


async def _bad_account(scene: Scene) -> bool:
    await scene.routed.plan("a", BAD_ACCOUNT)
    return await scene.is_kept(await scene.routed.pay_out())


async def _lost_answer(scene: Scene) -> bool:
    await scene.routed.plan("a", {"call": "transfer", "fault": "5xx_after_accept"})
    return await scene.is_paid_once(await scene.routed.pay_out())


async def _lost_connection(scene: Scene) -> bool:
    await scene.routed.plan("a", {"call": "transfer", "fault": "reset_after_accept"})
    return await scene.is_paid_once(await scene.routed.pay_out())


async def _down_after_unknown_answer(scene: Scene) -> bool:
    await scene.routed.plan("a", {"call": "transfer", "fault": "5xx_after_accept"})
    trx_id = await scene.routed.pay_out()
    await scene.work(trx_id)
    scene.first_rail.is_down = True
    await scene.work(trx_id)
    scene.first_rail.reset()
    return await scene.is_paid_once(trx_id)


async def _other_holder(scene: Scene) -> bool:
    services = scene.routed.services
    trx_id = await scene.routed.pay_out()
    who = Beneficiary({"bank_code": "000013", "account_number": ACCOUNT})
    current = services.rails.credentials(SECOND)
    services.resolver._keep(SECOND, who, current, ResolvedAccount("SOMEBODY ELSE"))
    await scene.routed.plan("a", REFUSED)
    await scene.routed.simulator.run_jobs()
    return SECOND not in await scene.routed.rails(trx_id)


# In the following scenarios, our database records the wrong rail for a payout.


async def _left_rail_pays(scene: Scene) -> bool:
    """The first rail pays a transfer that it rejected, before the second rail gets the transfer."""
    trx_id, stalled = await scene.rejected()
    await stalled.resume()
    await scene.routed.send_directly("a", trx_id)
    assert (await send_webhook(scene.site, "a", trx_id, "success")).status == 200
    return await scene.is_paid_once(trx_id)


async def _failed_before_the_backup(scene: Scene) -> bool:
    """The first rail failed and the second rail pays, but the backup was made before the move."""
    trx_id = await scene.routed.pay_out()
    await scene.work(trx_id)
    await scene.routed.payer.settle("a", trx_id, "failed")
    await scene.routed.send_directly("b", trx_id)
    await outgoing.hold_all(scene.db)
    await scene.work(trx_id)
    return await scene.is_not_refunded(trx_id)


async def _rejected_after_a_restore(scene: Scene) -> bool:
    """An administrator rejects a payout that, in our database, is unsent on the first rail."""
    trx_id = await scene.routed.pay_out()
    await scene.routed.send_directly("b", trx_id)
    await outgoing.hold_all(scene.db)
    with contextlib.suppress(Refusal):
        await decisions.reject(scene.db, scene.routed.services.rails, trx_id, "It is stuck.")
    return await scene.is_not_refunded(trx_id)


async def _moved_before_a_failure_is_saved(scene: Scene) -> bool:
    """A worker knows that the first rail failed, but the second rail has the transfer."""
    trx_id = await scene.routed.pay_out()
    await scene.work(trx_id)
    await scene.routed.payer.settle("a", trx_id, "failed")
    stalled = await scene.stall(trx_id, stalling.BEFORE_SETTLE)
    await attempts.adopt(scene.db, stalled.job.merchant_id, trx_id, SECOND)
    await stalled.resume()
    has_job = await scene.db.value("SELECT count(*) FROM job WHERE subject = $1", trx_id)
    return await scene.is_not_refunded(trx_id) and has_job == 1


# How each rule is removed.

Removal = Callable[[pytest.MonkeyPatch], None]


def _no_condition(name: str) -> Removal:
    return lambda patch: patch.setitem(attempts.CONDITIONS, name, lambda known: True)


def _no_check_of_earlier_sends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks, "is_unsent", lambda payout: payout.is_open)


def _always(value: bool | None) -> Any:
    async def answer(*_: object) -> bool | None:
        return value

    return answer


def _settle_on_any_rail(patch: pytest.MonkeyPatch) -> None:
    apply_within = states.apply_result_within

    async def settle(*arguments: Any, provider: str | None = None, **more: Any) -> bool:
        return await apply_within(*arguments, **more)

    patch.setattr(states, "apply_result_within", settle)


REMOVALS: dict[str, Removal] = {
    **{name: _no_condition(name) for name in attempts.CONDITIONS},
    "a beneficiary's rejection stays": lambda patch: patch.setattr(
        failover, "ABOUT_THE_BENEFICIARY", ()
    ),
    "only a rejection or no connection moves": lambda patch: patch.setattr(
        machine, "will_not_pay", lambda answer: not isinstance(answer, Done)
    ),
    "only a failed connection sent nothing": lambda patch: patch.setattr(
        wire, "NOT_CONNECTED", (Exception,)
    ),
    "only the first send moves": _no_check_of_earlier_sends,
    "the names agree": lambda patch: patch.setattr(beneficiary, "names_agree", lambda *_: True),
    "rails that were left are checked": lambda patch: patch.setattr(
        left_rails, "requery_reported", _always(False)
    ),
    "no failure counts after a restore": lambda patch: patch.setattr(
        PayoutTasks, "may_be_elsewhere", _always(False)
    ),
    "an administrator waits after a restore": lambda patch: patch.setattr(
        left_rails, "doubt", _always(None)
    ),
    "an answer counts on its own rail": _settle_on_any_rail,
    "no refund against a webhook": lambda patch: patch.setattr(doubts, "find", lambda *_: []),
    "no send while a left rail has it": lambda patch: patch.setattr(
        TransferTable, "may_send", "true"
    ),
    "no refund while a left rail has it": lambda patch: patch.setattr(
        doubts, "left_rail_that_has_it", _always(None)
    ),
}

CASES: list[tuple[Scenario, tuple[str, ...]]] = [
    (_ended_meanwhile, ("the payout is open",)),
    (_moved_meanwhile, ("it is on the same rail",)),
    (_found_to_be_sent, ("it was sent as the worker says",)),
    (_sent_again, ("it was not sent again",)),
    (_on_hold, ("it is not on hold",)),
    (_lost_its_job, ("the worker holds the job",)),
    (_webhook_contradicts, ("no webhook contradicts it",)),
    (_left_rail_has_it, ("no rail that was left has it",)),
    (_rejected_but_paid, ("no refund against a webhook",)),
    (_failed_but_left_rail_pays, ("no refund while a left rail has it",)),
    (_bad_account, ("a beneficiary's rejection stays",)),
    (_lost_answer, ("only a rejection or no connection moves",)),
    (_lost_connection, ("only a failed connection sent nothing",)),
    (
        _down_after_unknown_answer,
        ("only the first send moves", "it was sent as the worker says"),
    ),
    (_other_holder, ("the names agree",)),
    (
        _left_rail_pays,
        ("rails that were left are checked", "no send while a left rail has it"),
    ),
    (_failed_before_the_backup, ("no failure counts after a restore",)),
    (_rejected_after_a_restore, ("an administrator waits after a restore",)),
    (_moved_before_a_failure_is_saved, ("an answer counts on its own rail",)),
]
RUNS = [
    pytest.param(
        *(scenario, removed, removed == rules),
        id=f"{scenario.__name__}-{len(removed)}",
        # Runs without some rules only show that the rules are needed, so these runs are long tests.
        marks=pytest.mark.long if removed else (),
    )
    for scenario, rules in CASES
    for count in range(len(rules) + 1)
    for removed in itertools.combinations(rules, count)
]


@pytest.fixture
async def scene(routed: RoutedPayouts, site: Site) -> AsyncIterator[Scene]:
    yield Scene(routed, site)
    await platform.change(routed.services.db, "payouts_held", "false")


@pytest.mark.parametrize(("scenario", "removed", "breaks"), RUNS)
async def test_a_promise_breaks_exactly_without_its_rules(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Scenario,
    removed: tuple[str, ...],
    breaks: bool,
) -> None:
    for rule in removed:
        REMOVALS[rule](monkeypatch)
    assert await scenario(scene) is not breaks


def test_every_rule_has_a_scenario() -> None:
    assert {rule for _, rules in CASES for rule in rules} == set(REMOVALS)
