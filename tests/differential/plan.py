"""Random stories of payments, payouts and refunds, which both versions play."""

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.differential import payments
from tests.payouts import test_model as payouts
from tests.refunds import test_model as refunds

FILE = "MANILLA_DIFFERENTIAL_PLAN"
ROWS = "MANILLA_DIFFERENTIAL_ROWS"
STEPS = 40
RAILS = "abc"

Actions = Mapping[str, tuple[int, Mapping[str, Any]]]
ACTIONS: dict[str, Actions] = {
    "payments": payments.ACTIONS,
    "payouts": payouts.HAPPENS,
    "refunds": refunds.ACTIONS,
}


class PlannedStep(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


class Story(msgspec.Struct, frozen=True):
    machine: str
    rail: str
    steps: list[PlannedStep]


def stories(seed: int, events: int) -> Iterator[Story]:
    """Yields stories with at least this number of steps in all."""
    chance = random.Random(seed)
    for number in range(-(-events // STEPS)):
        machine = list(ACTIONS)[number % len(ACTIONS)]
        steps = list(_steps(chance, ACTIONS[machine]))
        yield Story(machine, RAILS[number // len(ACTIONS) % len(RAILS)], steps)


def _steps(chance: random.Random, actions: Actions) -> Iterator[PlannedStep]:
    names = [name for name, (weight, _) in actions.items() for _ in range(weight)]
    for _ in range(STEPS):
        name = chance.choice(names)
        choices = actions[name][1].items()
        yield PlannedStep(name, {key: chance.choice(values) for key, values in choices})


def write(path: Path, seed: int, events: int) -> None:
    path.write_bytes(msgspec.json.encode(list(stories(seed, events))))


def read() -> list[Story]:
    return msgspec.json.decode(Path(os.environ[FILE]).read_bytes(), type=list[Story])


def write_rows(rows: list[str]) -> None:
    Path(os.environ[ROWS]).write_text("".join(f"{row}\n" for row in rows))
