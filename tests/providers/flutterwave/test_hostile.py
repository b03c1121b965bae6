"""Arbitrary answers never cause a crash and are never read as success or refusal."""

from typing import Any

import msgspec
import pytest

from manilla.providers import wire
from manilla.providers.port import Adapter, Refused, Unknown
from tests.providers.flutterwave.conftest import Build
from tests.providers.flutterwave.fixtures import error, success
from tests.providers.samples import TRANSFER
from tests.providers.scripted import Scripted
from tests.providers.test_hostile_responses import CALLS, EMPTY_DATA, ODD_STATUSES, UNREADABLE


@pytest.fixture(autouse=True)
def _short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "CALL_SECONDS", 0.3)


@pytest.mark.parametrize("how", UNREADABLE)
async def test_an_unreadable_response_is_unknown(build: Build, server: Scripted, how: str) -> None:
    server.behaviour = UNREADABLE[how]
    for call, ask in CALLS.items():
        answer = await ask(build())
        assert isinstance(answer, Unknown), (call, answer)


@pytest.mark.parametrize("call", CALLS)
async def test_a_success_response_without_data_is_unknown(
    flutterwave: Adapter, server: Scripted, call: str
) -> None:
    for data in EMPTY_DATA:
        if data == [] and call in ("banks", "transfer_state"):
            continue  # an empty list is a list
        server.answers(200, success(data))
        answer = await CALLS[call](flutterwave)
        assert isinstance(answer, Unknown), (data, answer)


@pytest.mark.parametrize("call", CALLS)
async def test_an_error_in_a_200_response_is_unknown(
    flutterwave: Adapter, server: Scripted, call: str
) -> None:
    server.answers(200, error("Insufficient funds"))
    assert isinstance(await CALLS[call](flutterwave), Unknown)


async def test_only_documented_statuses_refuse_a_transfer(build: Build, server: Scripted) -> None:
    for status in ODD_STATUSES:
        server.answers(status, error("Insufficient funds"))
        assert isinstance(await build().send(TRANSFER), Unknown), status
    for status in (400, 402, 403, 422):
        server.answers(status, error("Insufficient funds"))
        assert isinstance(await build().send(TRANSFER), Refused)
        for word in (None, status, 0, "blocked", False, "fail", "Error"):
            # Not the provider's envelope, but that of a proxy in front of it.
            server.answers(status, {"status": word, "message": "Insufficient funds"})
            assert isinstance(await build().send(TRANSFER), Unknown), word
        odd: list[Any] = [{"message": "Insufficient funds"}, {"status": "error"}]
        for document in odd:
            server.answers(status, document)
            assert isinstance(await build().send(TRANSFER), Unknown), document


async def test_one_call_is_one_request(build: Build, server: Scripted) -> None:
    """Nothing is retried inside a call."""
    for status in (400, 401, 429, 500):
        server.answers(status, error("Insufficient funds"))
        await build().send(msgspec.structs.replace(TRANSFER, reference=f"TXN{status}"))
    assert len(server.recorded) == 4
