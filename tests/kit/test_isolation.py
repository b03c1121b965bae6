"""Isolated calls: their limits, their errors, and what a call cannot affect."""

import asyncio
import os
from typing import Any

import msgspec
import pytest

from manilla.kit.errors import Unavailable
from manilla.kit.isolation import calls
from manilla.kit.isolation.calls import IsolatedCallFailed, IsolatedCalls
from manilla.kit.isolation.wire import Task
from tests.kit.isolated_functions import NotThis
from tests.support.limits import limited
from tests.support.waiting import until

HERE = "tests.kit.isolated_functions"


def isolated(name: str, result: Any = str, **limits: Any) -> IsolatedCalls[Any]:
    return IsolatedCalls(f"{HERE}:{name}", result, refusal=NotThis, too_long="Too long.", **limits)


async def test_values_and_refusals_are_passed_on() -> None:
    repeat = isolated("repeat", list[str])
    assert await repeat.run("₦", 3) == ["₦"] * 3
    large = "x" * 5_000_000
    assert await repeat.run(large, 2) == [large] * 2
    with pytest.raises(NotThis, match="at least 0 times"):
        await repeat.run("x", -1)


async def test_a_bug_reaches_the_caller_with_its_traceback() -> None:
    with pytest.raises(IsolatedCallFailed, match="ValueError: a bug"):
        await isolated("fail").run("a bug")


async def test_each_call_has_a_process_of_its_own_without_our_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MANILLA_MASTER_KEY", "secret")
    calls._process._end()
    ids = isolated("process_ids", tuple[int, int])
    first, second = await ids.run(""), await ids.run("")
    assert (first[0] != second[0], first[1]) == (True, second[1])
    assert os.getpid() not in (*first, *second)
    variables = isolated("variables", list[str])
    assert (await variables.run("MANILLA_"), await variables.run("PATH")) == ([], ["PATH"])


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("spin", {"cpu_seconds": 0.05}),
        ("sleep", {"seconds": 0.05}),
        ("grow", {"memory_bytes": 2**29}),
    ],
)
async def test_a_call_that_exceeds_a_limit_is_killed(name: str, limits: dict[str, Any]) -> None:
    task = msgspec.structs.replace(Task(f"{HERE}:{name}", 60), **limits)
    assert await calls.call(task, b"\x91\xa1x") is None
    assert await isolated("repeat", list[str]).run("x", 1) == ["x"]


async def test_calls_continue_after_the_process_that_forks_them_was_killed() -> None:
    assert await isolated("kill_parent").run("x") == "x"
    process_id = calls._process._id
    assert process_id is not None
    await asyncio.to_thread(os.waitid, os.P_PID, process_id, os.WEXITED | os.WNOWAIT)
    assert await isolated("repeat", list[str]).run("x", 1) == ["x"]


async def test_the_caller_of_a_killed_call_gets_a_refusal() -> None:
    with limited(isolated_call_seconds=0.05), pytest.raises(NotThis, match="Too long"):
        await isolated("sleep").run("x")


async def test_a_call_is_refused_at_once_if_too_many_wait() -> None:
    sleeping = isolated("sleep", at_once=1, waiting_max=1)
    with limited(isolated_call_seconds=0.5):
        running = [asyncio.create_task(sleeping.run("x")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await sleeping.run("x")
        running[1].cancel()  # A caller that stops waiting leaves its call in the queue.
        with pytest.raises(Unavailable):
            await sleeping.run("x")
        with pytest.raises(NotThis):
            await running[0]

    async def has_ended() -> bool:
        return not sleeping._running

    await until(has_ended)
