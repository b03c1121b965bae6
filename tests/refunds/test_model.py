"""Hypothesis runs the same random sequences of actions on refunds and on a model of them.

`MANILLA_MACHINE_RUNS` sets the number of sequences for each provider, as for payouts.
"""

import asyncio
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
from tests.client import Site
from tests.payouts.model_machine import Stage
from tests.payouts.observer import PayoutObserver
from tests.payouts.test_model import IS_SHRUNK, RUNS, STEP_SECONDS_MAX, Step
from tests.provider_simulator import ProviderSimulator
from tests.refunds.model import POINTS, SENDS
from tests.refunds.model_machine import RefundMachine

STEPS = 30
Value = TypeVar("Value")

WHICH = st.integers(min_value=0, max_value=2)
SEND = st.sampled_from(["accepted"] * 2 + sorted(SENDS))
IS_ASKED = st.sampled_from([True, True, True, False])

# The weight of each action, and its arguments.
ACTIONS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {
    "refund": (2, {"amount": st.integers(min_value=100, max_value=100_000)}),
    "work": (6, {"which": WHICH, "send": SEND, "is_asked": IS_ASKED}),
    "crash": (
        4,
        {"which": WHICH, "send": SEND, "is_asked": IS_ASKED, "point": st.sampled_from(POINTS)},
    ),
    "stall": (4, {"which": WHICH}),
    "resume": (4, {"which": WHICH, "send": SEND, "is_asked": IS_ASKED}),
    "provider_decides": (
        4,
        {
            "which": WHICH,
            "word": st.sampled_from(["success", "failed"]),
            "is_notified": st.booleans(),
        },
    ),
    "webhook": (2, {"which": WHICH, "is_forged": st.booleans()}),
    "decide": (3, {"which": WHICH, "is_paid": st.booleans()}),
    "merchant_is": (2, {"is_on_hold": st.booleans()}),
    "days_pass": (2, {"which": WHICH}),
    "work_on_all": (1, {}),
}
NAMES = [name for name, (weight, _) in ACTIONS.items() for _ in range(weight)]


@st.composite
def steps(draw: st.DrawFn) -> Step:
    name = draw(st.sampled_from(NAMES))
    return Step(name, draw(st.fixed_dictionaries(ACTIONS[name][1])))


class Refunds(RuleBasedStateMachine):
    """One sequence of actions. The steps run on Manilla's event loop."""

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
    # Steps are faster than the minimum interval between status queries.
    monkeypatch.setattr(inbox, "QUERY_INTERVAL_SECONDS", 0.0)
    async with PayoutObserver.opened(settings.migration_url) as books:
        yield await Stage(services, site, simulator, books).open()


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
