"""Hypothesis runs the same random action sequences on refunds and on a model of refunds.

`make test` runs one sequence for each provider. `make test-all` runs as many as for payouts.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as how
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from manilla.providers import inbox
from manilla.services import Services
from manilla.settings import Settings
from tests.payouts.model_machine import Stage
from tests.payouts.observer import PayoutObserver
from tests.payouts.test_model import (
    INVARIANT_STEPS,
    IS_SHRUNK,
    RUNS,
    STEP_SECONDS_MAX,
    Choices,
    Step,
)
from tests.refunds.model import POINTS, SENDS
from tests.refunds.model_machine import RefundMachine
from tests.support.client import Site
from tests.support.provider_simulator import ProviderSimulator
from tests.support.rows import first_short

STEPS = 30
Value = TypeVar("Value")

WHICH = range(3)
SEND = ["accepted"] * 2 + sorted(SENDS)
IS_ASKED = [True, True, True, False]

# Maps each action to its weight and its arguments.
ACTIONS: dict[str, tuple[int, Choices]] = {
    "refund": (2, {"amount": range(100, 100_001)}),
    "work": (6, {"which": WHICH, "send": SEND, "is_asked": IS_ASKED}),
    "crash": (
        4,
        {"which": WHICH, "send": SEND, "is_asked": IS_ASKED, "point": POINTS},
    ),
    "stall": (4, {"which": WHICH}),
    "resume": (4, {"which": WHICH, "send": SEND, "is_asked": IS_ASKED}),
    "provider_decides": (
        4,
        {
            "which": WHICH,
            "word": ["success", "failed"],
            "is_notified": [False, True],
        },
    ),
    "webhook": (2, {"which": WHICH, "is_forged": [False, True]}),
    "decide": (3, {"which": WHICH, "is_paid": [False, True], "is_sure": [False, True]}),
    "merchant_is": (2, {"is_on_hold": [False, True]}),
    "days_pass": (2, {"which": WHICH}),
    "work_on_all": (1, {}),
}
NAMES = [name for name, (weight, _) in ACTIONS.items() for _ in range(weight)]


@st.composite
def steps(draw: st.DrawFn) -> Step:
    name = draw(st.sampled_from(NAMES))
    choices = ACTIONS[name][1].items()
    return Step(name, {key: draw(st.sampled_from(values)) for key, values in choices})


class Refunds(RuleBasedStateMachine):
    """One sequence of actions, whose steps run on Manilla's event loop."""

    stage: ClassVar[Stage]
    loop: ClassVar[asyncio.AbstractEventLoop]
    rail: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.machine = self.on_loop(RefundMachine.start(self.stage, self.rail))

    def on_loop(self, work: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(STEP_SECONDS_MAX)

    @rule(step=steps())
    def happens(self, step: Step) -> None:
        self.on_loop(self.machine.happens(step.name, step.arguments))


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
    async with PayoutObserver.opened(settings.migration_url) as books:
        yield await Stage(services, site, simulator, books).open()


@pytest.mark.parametrize(("rail", "seed"), first_short([("a", 0), ("b", 1), ("c", 2)]))
async def test_refunds_match_the_model_after_one_sequence_of_events(
    stage: Stage, rail: str, seed: int
) -> None:
    machine = await RefundMachine.start(stage, rail, checks_every=INVARIANT_STEPS)
    chance = random.Random(seed)
    for _ in range(STEPS):
        name = chance.choice(NAMES)
        choices = ACTIONS[name][1].items()
        await machine.happens(name, {key: chance.choice(values) for key, values in choices})
    assert await stage.books.broken() == []


@pytest.mark.long
@pytest.mark.parametrize("rail", ["a", "b", "c"])
async def test_refunds_match_the_model_whatever_happens(stage: Stage, rail: str) -> None:
    shared = {"rail": rail, "stage": stage, "loop": asyncio.get_running_loop()}
    story = type("Story", (Refunds,), shared)
    await asyncio.to_thread(
        run_state_machine_as_test,
        story,
        settings=how(
            max_examples=max(RUNS // (4 if rail == "a" else 16), 1),
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            phases=[Phase.generate, *([Phase.shrink] if IS_SHRUNK else [])],
            suppress_health_check=list(HealthCheck),
        ),
    )
