"""Arbitrary provider responses cause no crash, and count neither as success nor as rejection."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manilla.providers.port import (
    Adapter,
    Answer,
    DisputeDesk,
    Done,
    Refused,
    Unknown,
    after_unknown,
)
from tests.providers.adapters import Adapters
from tests.providers.conftest import PROVIDERS, envelope
from tests.providers.monnify import samples as monnify
from tests.providers.samples import ACCEPTANCE, CHARGE, EVIDENCE, PERIOD, REFUND, TRANSFER
from tests.providers.saved_ways import MANDATE, WAY, WITH_CARDS, cards_of, mandates_of
from tests.providers.scripted import Behaviour, Scripted, answering, hang, raw_answer
from tests.support import clock, limits
from tests.support.strategies import texts

Ask = Callable[[Adapter], Coroutine[Any, Any, Answer[Any]]]
WITHOUT_DISPUTES = ("providera", "providerb", "providerc", "monnify")


def disputes_of(adapter: Adapter) -> DisputeDesk:
    assert adapter.disputes is not None
    return adapter.disputes


CALLS: dict[str, Ask] = {
    "create_checkout": lambda each: each.create_checkout(CHARGE),
    "create_virtual_account": lambda each: each.create_virtual_account(CHARGE, "22222222222"),
    "charge_state": lambda each: each.charge_state("TXN0-1"),
    "refund": lambda each: each.refund(REFUND),
    "banks": lambda each: each.banks(),
    "resolve": lambda each: each.resolve("044", "0690000031"),
    "balance": lambda each: each.balance("NGN"),
    "send": lambda each: each.send(TRANSFER),
    "transfer_state": lambda each: each.transfer_state("TXN1"),
    "statement": lambda each: each.statement(*PERIOD, "NGN"),
}
DISPUTE_CALLS: dict[str, Ask] = {
    "dispute": lambda each: disputes_of(each).state("1"),
    "disputes": lambda each: disputes_of(each).listed(*PERIOD),
    "answer": lambda each: disputes_of(each).answer(ACCEPTANCE),
    "upload": lambda each: disputes_of(each).upload("1", EVIDENCE),
}
CARD_CALLS: dict[str, Ask] = {"charge_card": lambda each: cards_of(each).charge(WAY)}
MANDATE_CALLS: dict[str, Ask] = {
    "create_mandate": lambda each: mandates_of(each).create(MANDATE),
    "mandate_state": lambda each: mandates_of(each).state(MANDATE.reference),
    "debit": lambda each: mandates_of(each).debit(WAY),
    "debit_state": lambda each: mandates_of(each).debit_state(WAY.reference),
}
# If the contract has no such operation, the adapter rejects the call without sending a request.
NOT_CALLED = {
    *(("providerb", "refund"), ("providerc", "create_virtual_account")),
    *(("providera", "statement"), ("providerb", "statement"), ("providerc", "statement")),
    ("flutterwave", "statement"),
    *((p, c) for p in WITHOUT_DISPUTES for c in DISPUTE_CALLS),
    *(("kora", "dispute"), ("kora", "disputes"), ("kora", "upload")),
}
NOT_CALLED |= {(p, c) for p in PROVIDERS if p not in WITH_CARDS for c in CARD_CALLS}
NOT_CALLED |= {(p, c) for p in PROVIDERS if p != "monnify" for c in MANDATE_CALLS}
ALL_CALLS = {**CALLS, **DISPUTE_CALLS, **CARD_CALLS, **MANDATE_CALLS}
EVERY_CALL = [(p, c) for p in PROVIDERS for c in ALL_CALLS if (p, c) not in NOT_CALLED]


def _head(status: int, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""]).encode()


async def _reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _drip(writer: asyncio.StreamWriter) -> None:
    """Sends bytes until the client ends the call. The time limit covers the whole response."""
    writer.write(_head(200, "Content-Length: 10000"))
    while not writer.is_closing():
        writer.write(b" ")
        clock.advance(limits.CALL_SECONDS / 10)
        await asyncio.sleep(0.001)


async def _endless(writer: asyncio.StreamWriter) -> None:
    writer.write(_head(200, "Transfer-Encoding: chunked"))
    for _ in range(200):
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await writer.drain()


UNREADABLE: dict[str, Behaviour] = {
    "reset": _reset,
    "hang": hang,
    "drip": _drip,
    "endless": _endless,
    "empty": raw_answer(b""),
    "not http": raw_answer(b"\x00\x01\x02 hello\r\n\r\n"),
    "half a head": raw_answer(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "half a body": raw_answer(_head(200, "Content-Length: 100") + b'{"status": true'),
    "no body": answering(200, b""),
    "html": answering(200, b"<html>Maintenance</html>"),
    "half a document": answering(200, b'{"status": true, "data": {'),
    "not utf-8": answering(200, b'{"status": true, "message": "\xff\xfe"}'),
    "repeated key": answering(200, b'{"status": true, "status": true, "data": {}}'),
    "deep": answering(200, b"[" * 5000 + b"]" * 5000),
    "a list": answering(200, [1, 2, 3]),
    "a text": answering(200, "ok"),
    "null": answering(200, b"null"),
    "no envelope": answering(200, {"reference": "TXN1", "data": {}}),
    "gzip that is none": raw_answer(
        _head(200, "Content-Encoding: gzip", "Content-Length: 4", "Connection: close") + b"nope"
    ),
    "redirect": raw_answer(_head(302, "Location: /elsewhere", "Content-Length: 0")),
    "redirect forever": raw_answer(_head(307, "Location: ", "Content-Length: 0")),
}
# The responses to the calls that the adapter makes before a transfer.
NEEDED_FIRST: dict[str, Any] = {
    "/api/v1/auth/login": monnify.ok(monnify.DOCUMENTED["login"]),
    "/transferrecipient": {
        "status": True,
        "message": "ok",
        "data": {
            "recipient_code": "RCP_1",
            "details": {"account_number": TRANSFER.account_number, "bank_code": "044"},
        },
    },
}
EMPTY_DATA: list[Any] = [None, {}, [], "", 0, "TXN1", [None], {"reference": None}, True]
ODD_STATUSES = [100, 201, 301, 401, 404, 405, 408, 409, 418, 429, 500, 502, 503, 504, 599]


@pytest.fixture(autouse=True)
def _answers_what_is_needed_first(server: Scripted) -> None:
    server.fixed = {path: answering(200, document) for path, document in NEEDED_FIRST.items()}


@pytest.mark.parametrize("how", UNREADABLE)
async def test_an_unreadable_response_is_unknown(
    adapters: Adapters, server: Scripted, how: str
) -> None:
    server.behaviour = UNREADABLE[how]
    assert isinstance(await adapters.of("providera").send(TRANSFER), Unknown)


@pytest.mark.parametrize(("provider", "call"), EVERY_CALL)
async def test_every_call_can_get_an_unreadable_response(
    adapters: Adapters, server: Scripted, provider: str, call: str
) -> None:
    server.behaviour = UNREADABLE["half a document"]
    assert isinstance(await ALL_CALLS[call](adapters.of(provider)), Unknown)


@pytest.mark.long
@pytest.mark.parametrize("how", UNREADABLE)
async def test_an_unreadable_response_to_any_call_is_unknown(
    adapters: Adapters, server: Scripted, how: str
) -> None:
    server.behaviour = UNREADABLE[how]
    # Testing the other calls would take too long.
    sends = [(provider, "send") for provider in PROVIDERS]
    for provider, call in EVERY_CALL if how not in ("hang", "drip") else sends:
        adapters.close_breakers()
        answer = await ALL_CALLS[call](adapters.of(provider))
        assert isinstance(answer, Unknown), (provider, call, answer)


@pytest.mark.parametrize(("provider", "call"), EVERY_CALL)
async def test_a_success_response_without_data_is_unknown(
    adapters: Adapters, server: Scripted, provider: str, call: str
) -> None:
    for data in EMPTY_DATA:
        lists_transfers = provider in ("providerc", "flutterwave") and call == "transfer_state"
        lists = call in ("banks", "statement", "disputes", "mandate_state")
        if data == [] and (lists or lists_transfers):
            continue  # An empty list is a valid response.
        server.answers(200, envelope(provider, data))
        answer = await ALL_CALLS[call](adapters.of(provider))
        assert isinstance(answer, Unknown), (data, answer)


@pytest.mark.parametrize(("provider", "call"), EVERY_CALL)
async def test_an_error_in_a_200_response_is_unknown(
    adapters: Adapters, server: Scripted, provider: str, call: str
) -> None:
    server.answers(200, envelope(provider, None, success=False, message="Insufficient funds"))
    # Monnify reports an invalid account with HTTP 200. The lookup moves no money.
    expected = Refused if (provider, call) == ("monnify", "resolve") else Unknown
    assert isinstance(await ALL_CALLS[call](adapters.of(provider)), expected)


# The providers that document their rejections, with a rejection after which no transfer exists.
# Every other error of these providers is unknown. The contracts of A, B and C have no such limit.
POOR = {
    "kora": "Insufficient funds in disbursement wallet",
    "paystack": "Your balance is not enough to fulfil this request",
    "flutterwave": "Insufficient wallet balance",
    "monnify": "Insufficient wallet balance",
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("message", ["", "Something went wrong", "System malfunction"])
async def test_an_undocumented_error_rejects_a_transfer_only_at_a_b_and_c(
    adapters: Adapters, server: Scripted, provider: str, message: str
) -> None:
    for status in (400, 402, 403, 422):
        server.answers(status, envelope(provider, None, success=False, message=message))
        expected = Unknown if provider in POOR else Refused
        assert isinstance(await adapters.of(provider).send(TRANSFER), expected)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_only_documented_statuses_refuse_a_transfer(
    adapters: Adapters, server: Scripted, provider: str
) -> None:
    refusal = envelope(provider, None, success=False, message=POOR.get(provider, "Low funds"))
    if provider == "monnify":
        refusal["responseCode"] = "D04"
    flag = "requestSuccessful" if provider == "monnify" else "status"
    text = "responseMessage" if provider == "monnify" else "message"
    has_word = provider in ("providerc", "flutterwave")
    # Kora sends some of its documented rejections with 409.
    for status in (each for each in ODD_STATUSES if (provider, each) != ("kora", 409)):
        adapters.close_breakers()
        server.answers(status, refusal)
        assert isinstance(await adapters.of(provider).send(TRANSFER), Unknown), status
    for status in (400, 402, 403, 422):
        server.answers(status, refusal)
        assert isinstance(await adapters.of(provider).send(TRANSFER), Refused)
        for word in (None, status, 0, "blocked", "fail", "Error", False if has_word else "error"):
            # A proxy in front of the provider sent this envelope, not the provider.
            server.answers(status, {flag: word, text: "Insufficient funds"})
            assert isinstance(await adapters.of(provider).send(TRANSFER), Unknown), word
        for odd in ({text: "Insufficient funds"}, {flag: refusal[flag]}):
            server.answers(status, odd)
            assert isinstance(await adapters.of(provider).send(TRANSFER), Unknown), odd


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_one_call_is_one_request(adapters: Adapters, server: Scripted, provider: str) -> None:
    """A call never retries its request, even after a 401. The next call gets a new token."""
    for number, status in enumerate((400, 401, 409, 429, 500), start=1):
        adapters.close_breakers()
        server.answers(status, envelope(provider, None, success=False, message="No"))
        await adapters.of(provider).send(TRANSFER)
        assert len(server.calls) == number


def test_a_refusal_of_a_resent_transfer_is_unknown() -> None:
    from manilla.providers.port import RefusalCode

    refused = Refused(RefusalCode.PROVIDER_INSUFFICIENT_BALANCE, "too low")
    assert isinstance(after_unknown(refused), Unknown)


ANSWERS: dict[str, dict[str, Any]] = {
    "providera": {"status": "success"},
    "providerb": {"status": "success"},
    "providerc": {"id": 1, "status": "SUCCESSFUL"},
    "kora": {"status": "success"},
    "paystack": {"status": "success", "amount": 500050},
    "flutterwave": {"id": 1, "status": "SUCCESSFUL"},
    "monnify": {"status": "SUCCESS"},
}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_response_about_another_transfer_is_unknown(
    adapters: Adapters, server: Scripted, provider: str
) -> None:
    each = adapters.of(provider)
    ours = {"reference": "TXN1", "amount": 5000.5, "currency": "NGN", **ANSWERS[provider]}
    other = {**ours, "reference": "TXN2", "tx_ref": "TXN2", "paymentReference": "TXN2"}
    is_list = provider in ("providerc", "flutterwave")
    for data, expected in ((ours, Done), (other, Unknown)):
        server.answers(200, envelope(provider, [data] if is_list else data))
        assert isinstance(await each.transfer_state("TXN1"), expected), data
    server.answers(200, envelope(provider, other))
    assert isinstance(await each.send(TRANSFER), Unknown)
    assert isinstance(await each.charge_state("TXN1"), Unknown)


FEES = ("fee", "totalFee", "fee_charged", "app_fee")


@pytest.mark.parametrize("fee", [-10, "-10.00", "free", "NaN", [10], True])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_invalid_fee_counts_as_none(
    adapters: Adapters, server: Scripted, provider: str, fee: Any
) -> None:
    """The ledger posts what the provider has deducted, and an unknown result blocks the payout."""
    each = adapters.of(provider)
    transfer = {"reference": "TXN1", "amount": 5000.5, "currency": "NGN", **ANSWERS[provider]}
    transfer |= dict.fromkeys(FEES, fee)
    is_list = provider in ("providerc", "flutterwave")
    server.answers(200, envelope(provider, [transfer] if is_list else transfer))
    state = await each.transfer_state("TXN1")
    assert isinstance(state, Done)
    assert state.value.fee is None
    server.answers(200, envelope(provider, transfer))
    sent = await each.send(TRANSFER)
    assert isinstance(sent, Done)
    assert sent.value.fee is None


@pytest.mark.parametrize(
    "amount", ["NaN", "Infinity", "1e400", "5000,50", "0x10", "", "1_0", True, [5], "5000.505"]
)
async def test_an_invalid_amount_in_a_response_is_unknown(
    a: Adapter, server: Scripted, amount: Any
) -> None:
    data = {"reference": "TXN1", "status": "success", "amount": amount, "currency": "NGN"}
    server.answers(200, envelope("providera", data))
    assert isinstance(await a.transfer_state("TXN1"), Unknown)
    assert isinstance(await a.charge_state("TXN1"), Unknown)


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "data:text/html,x", "//x", "ftp://x", "x", "http://[", "https:x", 5],
)
async def test_a_customer_is_redirected_only_to_http_urls(
    a: Adapter, server: Scripted, address: Any
) -> None:
    server.answers(200, envelope("providera", {"reference": "TXN0-1", "checkout_url": address}))
    assert isinstance(await a.create_checkout(CHARGE), Unknown)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["reference", "tx_ref", "status", "amount", "currency", "id", "fee", "data"]
                + ["responseBody", "responseCode", "requestSuccessful", "paymentReference"]
                + ["banks", "NGN", "available_balance", "account_name", "link", "message", "code"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


any_response = given(
    document=json_values
    | st.fixed_dictionaries({"status": json_values, "data": json_values})
    | st.fixed_dictionaries({"responseCode": json_values, "responseBody": json_values}),
    status=st.sampled_from([200, 201, 400, 403, 404, 409, 500]),
    chosen=st.sampled_from(EVERY_CALL),
)
few = settings(
    max_examples=30,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
many = settings(few, max_examples=300, derandomize=False)


@few
@any_response
async def test_any_response_body_maps_to_one_of_three_results(
    adapters: Adapters, server: Scripted, document: Any, status: int, chosen: tuple[str, str]
) -> None:
    await _check_response(adapters, server, document, status, chosen)


@pytest.mark.long
@many
@any_response
async def test_many_response_bodies_map_to_one_of_three_results(
    adapters: Adapters, server: Scripted, document: Any, status: int, chosen: tuple[str, str]
) -> None:
    await _check_response(adapters, server, document, status, chosen)


async def _check_response(
    adapters: Adapters, server: Scripted, document: Any, status: int, chosen: tuple[str, str]
) -> None:
    provider, call = chosen
    adapters.close_breakers()
    server.behaviour = answering(status, json.dumps(document).encode())
    answer = await ALL_CALLS[call](adapters.of(provider))
    assert isinstance(answer, Done | Refused | Unknown)
    if status in (409, 500):
        assert isinstance(answer, Unknown)
