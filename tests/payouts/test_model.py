"""Hypothesis runs the same random action sequences on payouts and on a model of payouts.

`make test` runs one sequence of 40 steps for each rail. In `make test-all`, `MANILLA_MACHINE_RUNS`
sets the number of generated sequences for each rail; `make faults` raises it. The sequences are the
same in every run. `MANILLA_MACHINE_SHRINK=1` shortens a failing sequence, which takes minutes.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as how
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from manilla.methods import catalogue
from manilla.methods.catalogue import MethodUpdate
from manilla.methods.method import MethodKind
from manilla.providers import inbox
from manilla.services import Services
from manilla.settings import Settings
from tests.payouts.model import FEE_FIXED, FEE_PERCENT, POINTS, SENDS
from tests.payouts.model_machine import Machine, Stage
from tests.payouts.observer import PayoutObserver
from tests.payouts.payout_merchant import MANUAL, RAILS
from tests.support.client import Site
from tests.support.provider_simulator import ProviderSimulator
from tests.support.rows import first_short

RUNS = int(os.environ.get("MANILLA_MACHINE_RUNS", "32"))
STEPS = 40
IS_SHRUNK = bool(os.environ.get("MANILLA_MACHINE_SHRINK"))
STEP_SECONDS_MAX = 60
# `make test` checks the invariants only every few steps, because a check takes 13 ms.
INVARIANT_STEPS = 8

Value = TypeVar("Value")
Arguments = dict[str, Any]


class Step(msgspec.Struct, frozen=True):
    """One action with its arguments. `which` selects a payout on which the action is possible."""

    name: str
    arguments: Arguments


WHICH = range(8)
AMOUNT = range(100_000, 300_001)
SEND = ["accepted"] * 6 + sorted(SENDS)
IS_ASKED = [True, True, True, False]
WORD = ["on", "on", "success", "failed", "reversed"]
MERCHANT = ["enabled", "enabled", "disabled", "payouts off"]
THEN = ["nothing", "webhook", "work", "both", "both, badly"]

# The possible values of each argument. A value that is listed several times is more likely.
Choices = dict[str, Sequence[Any]]
# Maps each action to its weight and its arguments.
HAPPENS: dict[str, tuple[int, Choices]] = {
    "work": (6, {"which": WHICH, "send": SEND, "is_asked": IS_ASKED}),
    "pay_out": (3, {"is_manual": [False] * 5 + [True], "amount": AMOUNT}),
    "fund": (1, {"minor": range(1, 500_001)}),
    "pay_again": (1, {"which": WHICH, "amount": AMOUNT}),
    "verify": (1, {"which": WHICH}),
    "crash": (
        3,
        {"which": WHICH, "send": SEND, "is_asked": IS_ASKED, "point": POINTS},
    ),
    "freeze": (2, {"which": WHICH}),
    "resume": (2, {"which": WHICH, "send": SEND, "is_asked": IS_ASKED}),
    "provider_decides": (6, {"which": WHICH, "word": WORD, "then": THEN}),
    "webhook": (3, {"which": WHICH, "said": range(4), "is_forged": [False, True]}),
    "rail_is_down": (1, {"which": WHICH, "amount": AMOUNT}),
    "decide": (1, {"which": WHICH, "status": ["completed", "canceled"]}),
    "requeue": (1, {"which": WHICH}),
    "merchant_is": (3, {"what": MERCHANT}),
    "a_day_passes": (1, {"which": WHICH}),
    "work_on_all": (1, {}),
}
NAMES = [name for name, (weight, _) in HAPPENS.items() for _ in range(weight)]


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Draws any action with one rule. With several rules, Hypothesis would omit some of them."""
    name = draw(st.sampled_from(NAMES))
    choices = HAPPENS[name][1].items()
    return Step(name, {key: draw(st.sampled_from(values)) for key, values in choices})


def random_steps(seed: int) -> Iterator[Step]:
    """Yields a sequence's steps faster than Hypothesis, which starts with a trivial sequence."""
    chance = random.Random(seed)
    for _ in range(STEPS):
        name = chance.choice(NAMES)
        choices = HAPPENS[name][1].items()
        yield Step(name, {key: chance.choice(values) for key, values in choices})


class Payouts(RuleBasedStateMachine):
    """One sequence of actions, whose steps run on Manilla's event loop."""

    stage: ClassVar[Stage]
    loop: ClassVar[asyncio.AbstractEventLoop]
    rail: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False
        self.machine = self.on_loop(Machine.start(self.stage, self.rail))

    def on_loop(self, work: Coroutine[Any, Any, Value]) -> Value:
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result(STEP_SECONDS_MAX)
        except BaseException:
            self.is_broken = True
            raise

    @rule(step=steps())
    def happens(self, step: Step) -> None:
        self.on_loop(self.machine.happens(step.name, step.arguments))

    def teardown(self) -> None:
        """Ends each sequence without faults, so that open payouts are settled or in progress."""
        if not self.is_broken:
            self.on_loop(_end(self.machine))


async def _end(machine: Machine) -> None:
    await machine.happens("merchant_is", {"what": "enabled"})
    for _ in range(2):
        await machine.happens("work_on_all", {})


class PayoutsOnA(Payouts):
    rail = "a"


class PayoutsOnB(Payouts):
    rail = "b"


class PayoutsOnC(Payouts):
    rail = "c"


@pytest.fixture
async def stage(
    services: Services,
    settings: Settings,
    site: Site,
    simulator: ProviderSimulator,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Stage]:
    # Disable the minimum interval between status queries, because the test's steps are faster.
    monkeypatch.setattr(inbox, "QUERY_INTERVAL_SECONDS", 0.0)
    codes = [RAILS.get(rail, rail) for rail in (*RAILS, MANUAL)]
    with_fee = MethodUpdate(fee_fixed=FEE_FIXED, fee_percent=Decimal(FEE_PERCENT))
    without = MethodUpdate(fee_fixed="0", fee_percent=Decimal(0))
    async with PayoutObserver.opened(settings.migration_url) as books:
        await _change(services, codes, with_fee)
        try:
            yield await Stage(services, site, simulator, books).open()
        finally:
            await _change(services, codes, without)


async def _change(services: Services, codes: list[str], wanted: MethodUpdate) -> None:
    for code in codes:
        await catalogue.change(services.db, MethodKind.WITHDRAW, code, wanted)
    await services.methods._refresh(0)


async def _run(stage: Stage, story: type[Payouts]) -> None:
    story.stage, story.loop = stage, asyncio.get_running_loop()
    await asyncio.to_thread(
        run_state_machine_as_test,
        story,
        settings=how(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            phases=[Phase.generate, *([Phase.shrink] if IS_SHRUNK else [])],
            suppress_health_check=list(HealthCheck),
        ),
    )


# The status query contradicts a signed webhook, and the worker dies after saving the outcome.
# No later job runs, so the worker must save the contradiction along with the outcome.
CONTRADICTED = [
    Step("pay_out", {"is_manual": False, "amount": 150_000}),
    Step("work", {"which": 0}),
    Step("provider_decides", {"which": 0, "word": "failed", "then": "webhook"}),
    Step("provider_decides", {"which": 0, "word": "success", "then": "nothing"}),
    Step(
        "crash",
        {"which": 0, "send": "accepted", "is_asked": True, "point": "after_payout_commit"},
    ),
]


async def test_a_decision_and_its_contradictions_are_saved_together(stage: Stage) -> None:
    machine = await Machine.start(stage, "a")
    for step in CONTRADICTED:
        await machine.happens(step.name, step.arguments)
    assert len(machine.model.cases) == 1


@pytest.mark.parametrize(("rail", "seed"), first_short([("a", 0), ("b", 1), ("c", 2)]))
async def test_payouts_match_the_model_after_one_sequence_of_events(
    stage: Stage, rail: str, seed: int
) -> None:
    machine = await Machine.start(stage, rail, checks_every=INVARIANT_STEPS)
    for step in random_steps(seed):
        await machine.happens(step.name, step.arguments)
    await _end(machine)
    assert await stage.books.broken() == []


# pytest runs the classes, one per rail, in parallel.


@pytest.mark.long
class TestOnA:
    async def test_payouts_match_the_model_after_any_sequence_of_events(self, stage: Stage) -> None:
        await _run(stage, PayoutsOnA)


@pytest.mark.long
class TestOnB:
    async def test_payouts_match_the_model_after_any_sequence_of_events(self, stage: Stage) -> None:
        await _run(stage, PayoutsOnB)


@pytest.mark.long
class TestOnC:
    async def test_payouts_match_the_model_after_any_sequence_of_events(self, stage: Stage) -> None:
        await _run(stage, PayoutsOnC)
