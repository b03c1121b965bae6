"""Runs `manilla cell move`, kills it at random steps, and lets it continue."""

import asyncio
import random
import re
import time
from asyncio.subprocess import Process
from collections.abc import Sequence

import msgspec

from manilla.cells.moving.stored import STEPS, Step, TooLate
from tests.cells.moving.cell import Cell
from tests.cells.moving.world import CellWorld
from tests.support.instance import MANILLA
from tests.support.results import longest_gap

# The load must make this many API requests between two moves, and after the last one.
CALLS_BETWEEN = 60
KILLS = (0, 1, 1, 2)  # how often the command is killed during a move
DELAYS_SECONDS = (0.0, 0.0, 0.2, 1.0)  # the command is killed at most this long after a step
ABORT_CHANCE = 0.2  # how often a killed move is taken back, and started again
PROCESS_CHANCE = 0.5  # how often an API process or a worker is killed during a move
PROCESS_DELAY_SECONDS = 6.0
ATTEMPTS_MAX = 20
GAP = re.compile(r"gap seconds +([0-9.]+)")
# From this step on, the second cell serves the merchant, so the proxy must use a new map.
MOVED = Step.DEPART


class Kill(msgspec.Struct, frozen=True):
    """A killed process, and the moment by the monotonic clock."""

    what: str  # the cell and the program, or the last step that the command had printed
    at: float


class Move(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    target: str
    seconds: float  # from the start of the command until the proxy uses the new map
    command_kills: list[str]  # the step before each kill of the command, and the time since then
    process_kills: list[str]  # the killed API processes and workers
    aborted: int  # how often the move was taken back
    gap_seconds: float  # the longest time without a response other than 503
    reported_gap_seconds: float | None  # the time that the command reported
    unavailable: int  # responses with 503, and broken connections
    was_stalled: bool = False  # The machine stopped this program, so the times mean nothing.


class _MoveCommand:
    """The command that moves a merchant, which can be killed and run again."""

    def __init__(self, world: CellWorld, merchant: int, source: Cell, target: Cell) -> None:
        self._world, self._target = world, target
        self._words = (*MANILLA, "cell", "move", str(merchant), target.name)
        self._source = source
        self.kills: list[str] = []
        self.lines: list[str] = []
        self.aborted = 0
        self.open_steps = list(STEPS[1:])

    async def run(
        self, options: Sequence[str], kill_after: Step | None = None, delay_seconds: float = 0
    ) -> bool:
        """Runs the command. Returns whether it succeeded.

        The command is killed some time after the step `kill_after`. The proxy gets a new map as
        soon as the second cell serves the merchant.
        """
        process = await asyncio.create_subprocess_exec(
            *(*self._words, *options, "--data", str(self._source.folder)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._source.move_environment(self._target),
        )
        assert process.stdout is not None
        async with asyncio.TaskGroup() as group:
            async for raw in process.stdout:
                self.lines.append(raw.decode().rstrip())
                print(f"    {self.lines[-1]}", flush=True)
                step = self.lines[-1].partition(":")[0]
                if step in self.open_steps:
                    self.open_steps.remove(Step(step))
                if step == MOVED:
                    group.create_task(self._world.update_maps())
                if step == kill_after:
                    group.create_task(self._kill(process, step, delay_seconds))
            code = await process.wait()
        return code == 0

    async def _kill(self, process: Process, step: str, delay_seconds: float) -> None:
        await asyncio.sleep(delay_seconds)
        # The command may have ended in the meantime.
        if process.returncode is None:
            process.kill()
            self.kills.append(f"{step} + {delay_seconds:.1f} s")

    @property
    def has_moved(self) -> bool:
        """Whether the command was killed after its last step, and then started again."""
        return f"It lives in {self._target.name}" in self.last_line

    @property
    def is_unknown(self) -> bool:
        """Whether no move is open, because it was not stored or has ended."""
        return "is not being moved" in self.last_line

    @property
    def last_line(self) -> str:
        return self.lines[-1] if self.lines else ""

    async def take_back(self) -> bool:
        """Takes the move back. Returns False if it is too late for that."""
        while not await self.run(["--abort"]):
            # Any other reason is temporary, such as a database connection that was lost.
            if TooLate.message in self.last_line or self.is_unknown:
                return False
        self.aborted += 1
        self.open_steps = list(STEPS[1:])
        return True


class Mover:
    def __init__(self, world: CellWorld, chance: random.Random) -> None:
        self._world, self._chance = world, chance
        self.kills: list[Kill] = []  # of API processes and workers
        self.stalls: list[float] = []

    async def calls(self, merchant: int, count: int = CALLS_BETWEEN) -> None:
        """Waits until this many more of the merchant's requests got a response."""
        wanted = self._world.served[merchant] + count
        while self._world.served[merchant] < wanted:
            await asyncio.sleep(0.1)

    async def move(self, merchant: int, source: Cell, target: Cell) -> Move:
        await self.calls(merchant)
        start = time.monotonic()
        killing = asyncio.create_task(self._kill_a_process())
        command = _MoveCommand(self._world, merchant, source, target)
        await self._run_to_its_end(command)
        process_kills = await killing
        await self.calls(merchant)
        end = time.monotonic()
        calls = (call for call in self._world.calls if call.merchant == merchant)
        found = [call for call in calls if start <= call.at <= end]
        moments = [call.at for call in found if call.is_served]
        return Move(
            source=source.name,
            target=target.name,
            seconds=round(end - start, 1),
            command_kills=command.kills,
            process_kills=process_kills,
            aborted=command.aborted,
            gap_seconds=round(longest_gap(moments, start, end), 2),
            reported_gap_seconds=_reported_gap(command.lines),
            unavailable=len(found) - len(moments),
            was_stalled=any(start <= moment <= end for moment in self.stalls),
        )

    async def _run_to_its_end(self, command: "_MoveCommand") -> None:
        """Runs the command, and kills it as often as the seed says."""
        remaining, chance = self._chance.choice(KILLS), self._chance
        options: list[str] = []
        for _ in range(ATTEMPTS_MAX):
            # No step is open if the command was killed after its last step.
            kills = remaining and command.open_steps
            kill_after = chance.choice(command.open_steps) if kills else None
            delay_seconds = chance.uniform(0, chance.choice(DELAYS_SECONDS))
            if await command.run(options, kill_after, delay_seconds) or command.has_moved:
                return
            remaining -= kill_after is not None
            is_taken_back = chance.random() < ABORT_CHANCE and await command.take_back()
            options = [] if is_taken_back or command.is_unknown else ["--continue"]
        raise RuntimeError("The move does not end: " + "\n".join(command.lines))

    async def _kill_a_process(self) -> list[str]:
        """Kills an API process or a worker of one of the cells at a random moment, or nothing."""
        chance = self._chance
        if chance.random() > PROCESS_CHANCE:
            return []
        cell, program = chance.choice(self._world.cells), chance.choice(["serve", "worker"])
        await asyncio.sleep(chance.uniform(0, PROCESS_DELAY_SECONDS))
        cell.kill(program, chance.randrange(2))
        self.kills.append(Kill(f"{program} of {cell.name}", time.monotonic()))
        return [self.kills[-1].what]


def _reported_gap(lines: Sequence[str]) -> float | None:
    found = [GAP.search(line) for line in lines]
    gaps = [float(each[1]) for each in found if each]
    return gaps[-1] if gaps else None
