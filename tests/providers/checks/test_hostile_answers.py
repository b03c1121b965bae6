"""`manilla provider check` reports invalid or missing responses and does not crash."""

import asyncio
import itertools

import pytest

from manilla.providers import wire
from manilla.providers.checks.check import CheckResult
from manilla.providers.kinds import KINDS
from tests.providers.checks.conftest import TEST, CheckedProviders
from tests.providers.checks.test_checks import shown
from tests.providers.scripted import Behaviour, Scripted, answering, hang, raw_answer

DEEP = b"[" * 100_000
NONSENSE: dict[str, Behaviour] = {
    "an error page": answering(503, b"<html>down</html>"),
    "a login page": answering(200, b"<html>Sign in</html>"),
    "half of a document": answering(200, b'{"status": true, "data": {"acc'),
    "too deep": answering(200, DEEP),
    "too large": answering(200, b"x" * (wire.ANSWER_BYTES_MAX + 1)),
    "another list": answering(200, [1, 2, 3]),
    "no text": answering(200, b"\xff\xfe\x00"),
    "no HTTP": raw_answer(b"\x00\x01\x02\r\n\r\n"),
    "nothing": raw_answer(b""),
    "a redirect": raw_answer(b"HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:9/\r\n\r\n"),
}


# `make test` runs each behavior and each provider kind once. The other pairs are long tests.
SHORT = {*(("kora", behavior) for behavior in NONSENSE), *((kind, "no HTTP") for kind in KINDS)}


@pytest.mark.parametrize(
    ("provider", "behavior"),
    [
        pytest.param(*pair, marks=() if pair in SHORT else pytest.mark.long)
        for pair in itertools.product(KINDS, NONSENSE)
    ],
)
async def test_nonsense_answers_nothing(
    providers: CheckedProviders, server: Scripted, provider: str, behavior: str
) -> None:
    server.behaviour = NONSENSE[behavior]
    await providers.configure(provider, base_url=server.url)
    report = await providers.check(provider)
    assert {each.result for each in report.checks} == {CheckResult.NOT_ANSWERED}
    assert not report.is_ok
    assert server.recorded


async def test_a_silent_provider_ends_the_check_after_a_few_calls(
    providers: CheckedProviders, server: Scripted
) -> None:
    server.behaviour = hang
    await providers.configure("paystack", base_url=server.url)
    report = await providers.check("paystack")
    assert {each.result for each in report.checks} == {CheckResult.NOT_ANSWERED}
    assert "no answer in time" in shown(report)
    # The check sends at most five requests about charges and five about transfers.
    assert len(server.recorded) <= 10


@pytest.mark.parametrize("provider", KINDS)
async def test_a_provider_that_returns_our_own_request_reveals_nothing(
    providers: CheckedProviders, server: Scripted, provider: str
) -> None:
    async def echo(writer: asyncio.StreamWriter) -> None:
        request = server.recorded[-1]
        text = f"{request.target} {request.headers} {request.body!r}"
        said = {"status": False, "requestSuccessful": False, "responseCode": "99"}
        document = {**said, "message": text, "responseMessage": text, text: [text]}
        await answering(400, document)(writer)

    server.behaviour = echo
    await providers.configure(provider, base_url=server.url)
    text = shown(await providers.check(provider))
    public = {"business_id", "default_va_bank"}
    for name, value in TEST[provider].items():
        assert name in public or value not in text, name
    sent = {value for each in server.recorded for value in each.headers.values()}
    assert not [
        value for value in sent if value.startswith(("Bearer ", "Basic ")) and value in text
    ]
