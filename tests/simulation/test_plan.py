"""A seed always yields the same plan, and a written plan can be read again."""

from itertools import chain

from tests.simulation import plan
from tests.simulation.administrators import AdministratorSteps
from tests.simulation.faults import FaultSteps
from tests.simulation.minimize import Minimizer
from tests.simulation.plan import ADMINISTRATOR, FAULT, Round
from tests.simulation.teams import TeamSteps


def test_a_seed_yields_the_same_rounds_however_many_are_played() -> None:
    assert plan.first_rounds(7, 3)[:2] == plan.first_rounds(7, 2)
    assert plan.first_rounds(7, 1) != plan.first_rounds(8, 1)


def test_a_written_plan_is_read_unchanged() -> None:
    rounds = plan.first_rounds(7, 2)
    assert plan.read(plan.write(list(chain(*rounds)))) == rounds


def test_every_step_of_a_plan_can_be_run() -> None:
    runners = {ADMINISTRATOR: AdministratorSteps, FAULT: FaultSteps}
    for choices, runner in (
        (plan.MERCHANT | plan.CUSTOMERS | plan.SPLITS, TeamSteps),
        ({**plan.ADMIN, **plan.PRICES}, runners[ADMINISTRATOR]),
        (plan.FAULTS | plan.CUSTOMER_FAULTS | plan.SPLIT_FAULTS, runners[FAULT]),
    ):
        assert [name for name in choices if not hasattr(runner, name)] == []


def test_many_rounds_contain_every_kind_of_step() -> None:
    drawn = {step.name for step in chain(*plan.first_rounds(1, 60))}
    new = {*plan.PRICES, *plan.CUSTOMERS, *plan.CUSTOMER_FAULTS, *plan.SPLITS, *plan.SPLIT_FAULTS}
    assert drawn == {*plan.MERCHANT, *plan.ADMIN, *plan.FAULTS, *new}


async def test_a_failing_plan_is_reduced_to_the_steps_that_cause_the_failure() -> None:
    rounds = plan.first_rounds(3, 3)
    crash = next(step for step in rounds[2] if step.lane == FAULT)
    paid = next(step for step in rounds[2] if step.lane == "merchant 2")

    async def fails(played: list[Round]) -> bool:
        return {crash, paid} <= {*chain(*played)}

    assert await Minimizer(fails, seconds=60).shorten(rounds) == [[paid, crash]]


async def test_a_failure_across_two_rounds_keeps_both_rounds() -> None:
    rounds = plan.first_rounds(3, 4)
    first, last = rounds[1][0], rounds[3][5]

    async def fails(played: list[Round]) -> bool:
        return {first, last} <= {*chain(*played)}

    assert await Minimizer(fails, seconds=60).shorten(rounds) == [[first], [last]]


async def test_a_failure_that_does_not_repeat_keeps_the_whole_plan() -> None:
    rounds = plan.first_rounds(3, 2)

    async def fails(_played: list[Round]) -> bool:
        return False

    shortened = await Minimizer(fails, seconds=60).shorten(rounds)
    assert sorted(map(len, shortened)) == sorted(map(len, rounds))
