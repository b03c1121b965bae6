"""Access tokens are requested before a call, and renewed before expiry, one request at a time."""

import asyncio
from typing import Any

import pytest

from manilla.kit import time_limits
from manilla.providers.kinds.monnify import tokens
from manilla.providers.kinds.monnify.adapter import Monnify
from manilla.providers.port import Done, Unknown
from tests.providers.monnify.conftest import ScriptedMonnify, reset
from tests.providers.monnify.samples import DOCUMENTED, ok, refusal
from tests.providers.samples import TRANSFER
from tests.providers.scripted import answering

INVALID_TOKEN = {"error": "invalid_token", "error_description": "Access token expired"}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(tokens, "time", clock)
    return clock


def _login(token: str, seconds: Any = 3600) -> Any:
    return answering(200, ok({"accessToken": token, "expiresIn": seconds}))


async def _token_used(monnify: Monnify, monnify_server: ScriptedMonnify) -> str:
    monnify_server.answers(200, ok(DOCUMENTED["balance"]))
    assert isinstance(await monnify.balance("NGN"), Done)
    return monnify_server.calls[-1].headers["authorization"].removeprefix("Bearer ")


async def test_a_token_is_used_until_it_must_be_renewed(
    monnify: Monnify, monnify_server: ScriptedMonnify, clock: Clock
) -> None:
    monnify_server.login = _login("first")
    assert await _token_used(monnify, monnify_server) == "first"
    monnify_server.login = _login("second")
    clock.now += 3600 - tokens.RENEW_AHEAD_SECONDS - 1
    assert await _token_used(monnify, monnify_server) == "first"
    clock.now += 2
    assert await _token_used(monnify, monnify_server) == "second"
    assert len(monnify_server.logins) == 2


async def test_a_short_token_is_renewed_after_half_its_time(
    monnify: Monnify, monnify_server: ScriptedMonnify, clock: Clock
) -> None:
    monnify_server.login = _login("short", "10")
    for seconds in (0, 4, 2):
        clock.now += seconds
        assert await _token_used(monnify, monnify_server) == "short"
    assert len(monnify_server.logins) == 2


async def test_many_calls_request_one_token(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["balance"]))
    answers = await asyncio.gather(*(monnify.balance("NGN") for _ in range(20)))
    assert all(isinstance(answer, Done) for answer in answers)
    assert len(monnify_server.logins) == 1


async def test_calls_that_wait_for_a_token_share_its_failure(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.login = answering(503, b"")
    answers = await asyncio.gather(*(monnify.send(TRANSFER) for _ in range(20)))
    assert all(isinstance(answer, Unknown) and answer.is_rail_down for answer in answers)
    assert len(monnify_server.logins) == 1


async def test_a_token_that_cannot_be_renewed_is_used_while_it_lasts(
    monnify: Monnify, monnify_server: ScriptedMonnify, clock: Clock
) -> None:
    monnify_server.login = _login("first")
    await _token_used(monnify, monnify_server)
    monnify_server.login = answering(503, b"")
    clock.now += 3600 - tokens.RENEW_AHEAD_SECONDS + 1
    assert await _token_used(monnify, monnify_server) == "first"
    clock.now += tokens.RENEW_AHEAD_SECONDS - time_limits.current.provider_call_seconds
    calls = len(monnify_server.calls)
    assert isinstance(await monnify.balance("NGN"), Unknown)
    assert len(monnify_server.calls) == calls


async def test_without_a_token_nothing_is_sent(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["sent"]))
    for login in (
        answering(401, refusal("Invalid credentials")),
        answering(401, INVALID_TOKEN),
        answering(400, refusal("Bad request")),
        answering(200, refusal("No")),
        answering(500, b""),
        answering(200, b"<html>"),
        _login(""),
        _login("two words"),
        _login("line\r\nX-Header: 1"),
        _login("é"),
        _login("x" * 10_000),
        *(_login("token", seconds) for seconds in (None, 0, -1, True, "soon", [60], 1.5)),
    ):
        reset(monnify)
        monnify_server.login = login
        assert isinstance(await monnify.send(TRANSFER), Unknown)
    assert monnify_server.calls == []


async def test_wrong_keys_do_not_pass_by_themselves(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    for document in (refusal("Invalid credentials"), INVALID_TOKEN, b"Unauthorized"):
        monnify_server.login = answering(401, document)
        answer = await monnify.balance("NGN")
        assert isinstance(answer, Unknown)
        assert not answer.can_pass


@pytest.mark.parametrize("document", [INVALID_TOKEN, refusal("Invalid access token"), b""])
async def test_a_rejected_token_leaves_the_transfer_unknown_and_is_not_used_again(
    monnify: Monnify, monnify_server: ScriptedMonnify, document: Any
) -> None:
    monnify_server.login = _login("first")
    monnify_server.answers(401, document)
    answer = await monnify.send(TRANSFER)
    assert isinstance(answer, Unknown)
    assert answer.can_pass
    assert len(monnify_server.calls) == 1  # The adapter never repeats a transfer.
    monnify_server.login = _login("second")
    assert await _token_used(monnify, monnify_server) == "second"


async def test_a_renewed_token_is_kept_when_its_predecessor_is_rejected(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.login = _login("second")
    assert await _token_used(monnify, monnify_server) == "second"
    monnify._tokens.discard("first")
    assert await _token_used(monnify, monnify_server) == "second"
    assert len(monnify_server.logins) == 1
