"""Runs `manilla cell move`, kills it at random steps, and lets it continue."""

import asyncio
import contextlib
import random
import re
import time
from collections.abc import Sequence

import msgspec

from tests.cells.moving.cell import Cell
from tests.cells.moving.world import Call, CellWorld
from tests.instance import MANILLA
from tests.results import longest_gap

# The load must make this many API requests between two moves, and after the last one.
CALLS_BETWEEN = 60
KILLS = (0, 1, 1, 2)  # how often the command is killed during a move
LINES_MAX = 12  # the command is killed after at most this many lines of its output
ABORT_CHANCE = 0.2  # how often a killed move is taken back, and started again
PROCESS_CHANCE = 0.5  # how often an API process or a worker is killed during a move
PROCESS_DELAY_SECONDS = 6.0
ATTEMPTS_MAX = 20
UNAVAILABLE = (0, 503)
GAP = re.compile(r"gap.*?([0-9.]+) ?s")


class Kill(msgspec.Struct, frozen=True):
    """A killed process, and the moment by the monotonic clock."""

    what: str  # the cell and the program, or the last step that the command had printed
    at: float


class Move(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    target: str
    seconds: float  # from the start of the command until the proxy uses the new map
    command_kills: list[str]  # the last line of output before each kill of the command
    process_kills: list[str]  # the killed API processes and workers
    aborted: int  # how often the move was taken back
    gap_seconds: float  # the longest time without a response other than 503
    reported_gap_seconds: float | None  # the time that the command reported
    unavailable: int  # responses with 503, and broken connections
    was_stalled: bool = False  # The machine stopped this program, so the times mean nothing.


class CommandRun(msgspec.Struct):
    code: int
    lines: list[str]
    was_killed: bool = False


class Mover:
    def __init__(self, world: CellWorld, chance: random.Random) -> None:
        self._world, self._chance = world, chance
        self.kills: list[Kill] = []  # of API processes and workers
        self.stalls: list[float] = []

    async def calls(self, merchant: int, count: int = CALLS_BETWEEN) -> None:
        """Waits until this many more of the merchant's requests got a response."""

        def served() -> int:
            return sum(_is_served(call.status) for call in of_merchant(self._world, merchant))

        wanted = served() + count
        while served() < wanted:
            await asyncio.sleep(0.1)

    async def move(self, merchant: int, source: Cell, target: Cell) -> Move:
        await self.calls(merchant)
        start, kills, aborted = time.monotonic(), list[str](), 0
        killing = asyncio.create_task(self._kill_a_process())
        remaining, words, lines = self._chance.choice(KILLS), list[str](), list[str]()
        for _ in range(ATTEMPTS_MAX):
            after = self._chance.randrange(1, LINES_MAX) if remaining else None
            run = await self._run(merchant, source, target, words, after)
            lines += run.lines
            if run.was_killed:
                remaining -= 1
                kills.append(run.lines[-1] if run.lines else "")
                words, did_abort = await self._after_kill(merchant, source, target)
                aborted += did_abort
            elif run.code == 0:
                break
            else:
                # The reason can be temporary, such as a database connection that was lost.
                words = ["--continue"]
        else:
            raise RuntimeError("The move does not end: " + "\n".join(lines))
        await self._world.update_maps()
        process_kills = await killing
        await self.calls(merchant)
        end = time.monotonic()
        found = [call for call in of_merchant(self._world, merchant) if start <= call.at <= end]
        moments = [call.at for call in found if _is_served(call.status)]
        return Move(
            source=source.name,
            target=target.name,
            seconds=round(end - start, 1),
            command_kills=kills,
            process_kills=process_kills,
            aborted=aborted,
            gap_seconds=round(longest_gap(moments, start, end), 2),
            reported_gap_seconds=_reported_gap(lines),
            unavailable=len(found) - len(moments),
            was_stalled=any(start <= moment <= end for moment in self.stalls),
        )

    async def _after_kill(
        self, merchant: int, source: Cell, target: Cell
    ) -> tuple[list[str], bool]:
        """Decides whether a killed move is continued, or taken back and started again."""
        if self._chance.random() < ABORT_CHANCE:
            run = await self._run(merchant, source, target, ["--abort"], None)
            if run.code == 0:
                return [], True
        return ["--continue"], False

    async def _run(
        self,
        merchant: int,
        source: Cell,
        target: Cell,
        words: Sequence[str],
        kill_after: int | None,
    ) -> CommandRun:
        """Runs the command. Kills it when it has printed this many lines."""
        process = await asyncio.create_subprocess_exec(
            *(*MANILLA, "cell", "move", str(merchant), target.name, *words),
            *("--data", str(source.folder)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=source.move_environment(target),
        )
        assert process.stdout is not None
        run = CommandRun(0, [])
        async for raw in process.stdout:
            run.lines.append(raw.decode().rstrip())
            print(f"    {run.lines[-1]}", flush=True)
            if len(run.lines) == kill_after:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                run.was_killed = True
                break
        run.code = await process.wait()
        return run

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


def of_merchant(world: CellWorld, merchant: int) -> list[Call]:
    return [call for call in world.calls if call.merchant == merchant]


def _is_served(status: int) -> bool:
    return status not in UNAVAILABLE


def _reported_gap(lines: Sequence[str]) -> float | None:
    found = [GAP.search(line) for line in lines]
    gaps = [float(each[1]) for each in found if each]
    return gaps[-1] if gaps else None
