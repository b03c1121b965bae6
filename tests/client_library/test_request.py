"""`manilla-client request` against the real API."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from manilla_client.command.output import printable

from tests.client_library.tool import TOOL, environment, tool, variables
from tests.notify.receiver import Behave, answer, receiving
from tests.payments.orders import new_reference
from tests.support.client import Merchant, Site


@pytest.fixture
def keys(site: Site, merchant: Merchant) -> dict[str, str]:
    own = merchant.credentials
    return variables(site.port, own.merchant_key, own.api_key, own.api_secret)


async def request(
    home: Path, keys: dict[str, str], *words: str, input: str = ""
) -> tuple[int, str, str]:
    run = await asyncio.to_thread(tool, home, "request", *words, input=input, **keys)
    assert not [key for key in list(keys.values())[1:] if key in run.stdout + run.stderr]
    return run.returncode, run.stdout, run.stderr


def order(**changed: Any) -> str:
    shop = "https://shop.example"
    fields = {
        "currency_code": "NGN",
        "ref_trx": new_reference(),
        "success_redirect": f"{shop}/paid",
        "cancel_redirect": f"{shop}/basket",
        "ipn_url": f"{shop}/ipn",
        **changed,
    }
    return json.dumps(fields)[:-1] + ', "payment_amount": 90071992547409.90}'


async def test_a_response_is_printed_with_its_status(tmp_path: Path, keys: dict[str, str]) -> None:
    code, out, err = await request(tmp_path, keys, "get", "/api/v1/site-info")
    assert (code, err.split(",")[0]) == (0, "HTTP 200")
    assert json.loads(out)["api_version"] == "1.0"
    assert '\n  "api_version": "1.0"' in out


@pytest.mark.parametrize("source", ["text", "file", "pipe"])
async def test_a_body_is_sent_and_its_numbers_stay_exact(
    tmp_path: Path, keys: dict[str, str], source: str
) -> None:
    body = order(description="₦43")
    (tmp_path / "body").write_text(body)
    data = {"text": body, "file": f"@{tmp_path / 'body'}", "pipe": "-"}[source]
    words = ("POST", "/api/v1/initiate-payment", "--data", data)
    code, out, err = await request(tmp_path, keys, *words, input=body)
    assert code == 0, err
    assert '"amount": 90071992547409.90,' in out
    assert '"description": "₦43"' in out


def test_a_response_cannot_control_the_terminal() -> None:
    assert printable("\x1b[2J\x9b₦\n") == "\\u001b[2J\\u009b₦\n"


async def test_a_header_can_be_added(tmp_path: Path, keys: dict[str, str]) -> None:
    target = ("POST", "/api/v1/initiate-payment", "--data", order())
    repeat = ("--header", "idempotency-key: order 7")
    first = await request(tmp_path, keys, *target, *repeat)
    assert first[0] == 0
    assert (await request(tmp_path, keys, *target, *repeat))[:2] == first[:2]
    code, out, _ = await request(
        tmp_path, keys, *target, "--header", "X-Sandbox-Scenario: sideways"
    )
    assert (code, json.loads(out)["error_code"]) == (4, "VALIDATION_FAILED")
    code, _, err = await request(tmp_path, keys, *target, "--header", "x-timestamp: 1")
    assert (code, err) == (1, "x-timestamp is part of the signature.\n")


async def test_a_rejected_request_has_its_own_exit_code(
    tmp_path: Path, keys: dict[str, str]
) -> None:
    code, out, err = await request(tmp_path, keys, "GET", "/api/v1/verify-payment/TXN1")
    assert (code, json.loads(out)["error_code"]) == (4, "TRANSACTION_NOT_FOUND")
    assert err.startswith("HTTP 404, request ")
    wrong = {**keys, "MANILLA_API_SECRET": "test_wrong"}
    code, out, _ = await request(tmp_path, wrong, "GET", "/api/v1/site-info")
    assert (code, json.loads(out)["error_code"]) == (4, "INVALID_CREDENTIALS")


async def test_without_a_response_the_key_for_repeating_it_is_printed(
    tmp_path: Path, keys: dict[str, str]
) -> None:
    away = {**keys, "MANILLA_URL": "http://127.0.0.1:1"}
    words = ("POST", "/api/v1/initiate-payment", "--data", order())
    code, out, err = await request(tmp_path, away, *words, "--header", "Idempotency-Key: k 1")
    assert (code, out) == (3, "")
    assert err.startswith("No response: ")
    assert err.endswith("add: --header 'Idempotency-Key: k 1'\n")


@pytest.mark.parametrize(
    ("response", "exit_code", "is_printed"),
    [
        (answer(502, b"<html>Bad Gateway</html>"), 5, True),
        (answer(422, b'{"error": "No.", "error_code": "kyc_required"}'), 4, False),
    ],
)
async def test_the_key_is_printed_if_a_post_may_have_taken_effect(
    tmp_path: Path, keys: dict[str, str], response: Behave, exit_code: int, is_printed: bool
) -> None:
    async with receiving() as service:
        service.answers.append(response)
        own = {**keys, "MANILLA_URL": service.url.removesuffix("/ipn")}
        words = ("POST", "/api/v1/initiate-payout", "--data", "{}")
        code, _, err = await request(tmp_path, own, *words)
    (received,) = service.received
    key = received.headers["idempotency-key"]
    assert (code, f"--header 'Idempotency-Key: {key}'" in err) == (exit_code, is_printed)


@pytest.mark.parametrize(
    "words",
    [
        ("GET", "api/v1/site-info"),
        ("GET", "/a b"),
        ("G T", "/"),
        ("GET", "/", "--header", "x"),
        ("POST", "/", "--data", "@/nothing"),
    ],
)
async def test_a_request_that_cannot_be_sent_is_exit_1(
    tmp_path: Path, keys: dict[str, str], words: tuple[str, ...]
) -> None:
    code, out, err = await request(tmp_path, keys, *words)
    assert (code, out, len(err.splitlines())) == (1, "", 1)


async def test_a_named_profile_overrides_the_variables(
    tmp_path: Path, keys: dict[str, str]
) -> None:
    add = ("profile", "add", "shop", "--from-environment")
    assert (await asyncio.to_thread(tool, tmp_path, *add, **keys)).returncode == 0
    away = {**keys, "MANILLA_URL": "http://127.0.0.1:1"}
    words = ("GET", "/api/v1/site-info")
    assert (await request(tmp_path, away, *words))[0] == 3
    assert (await request(tmp_path, away, *words, "--profile", "shop"))[0] == 0
    in_use = await asyncio.to_thread(tool, tmp_path, "request", *words)
    assert in_use.returncode == 0


async def test_a_reader_that_has_ended_is_no_error(tmp_path: Path, keys: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = await asyncio.create_subprocess_exec(
        *(*TOOL, "request", "get", "/api/v1/site-info"),
        stdout=writing,
        stderr=asyncio.subprocess.PIPE,
        env=environment(tmp_path, **keys),
    )
    os.close(writing)
    _, err = await process.communicate()
    assert (process.returncode, err.decode().split(",")[0]) == (141, "HTTP 200")
    assert len(err.splitlines()) == 1
