"""The code samples work against a running instance."""

import json
import re
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from manilla_client import Client, Credentials, Notification, verify_ipn

from tests.cli.receiver import Shop, opened, until
from tests.notify.receiver import Received
from tests.samples.languages import LANGUAGES, Runner, programs
from tests.support.instance import Instance

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance with the demo merchant, so that providers and payout methods are configured."""
    instance = Instance(tmp_path_factory.mktemp("samples") / "data").wait()
    instance.command("setting", "set", "sandbox_complete_seconds", "0")
    instance.command("setting", "set", "rate_limit_per_minute", "1000")
    yield instance
    assert instance.stop() == 0


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with opened() as shop:
        yield shop


@pytest.fixture(scope="module")
def credentials(instance: Instance) -> Any:
    return instance.command("merchant", "create", "Ada Stores", "ada@example.com")["sandbox"]


@pytest.fixture(scope="module")
def environment(instance: Instance, credentials: Any, shop: Shop) -> dict[str, str]:
    return {
        "MANILLA_URL": f"http://127.0.0.1:{instance.port}",
        "MANILLA_MERCHANT_KEY": credentials["merchant_key"],
        "MANILLA_API_KEY": credentials["api_key"],
        "MANILLA_API_SECRET": credentials["api_secret"],
        "SHOP_URL": shop.url(""),
    }


@pytest.fixture(scope="module", params=LANGUAGES)
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(request.param, programs(tmp_path_factory))


def client_of(environment: dict[str, str]) -> Client:
    names = ("MANILLA_MERCHANT_KEY", "MANILLA_API_KEY", "MANILLA_API_SECRET")
    return Client(environment["MANILLA_URL"], Credentials(*(environment[name] for name in names)))


def made(runner: Runner, sample: str, environment: dict[str, str]) -> str:
    """Runs the sample, and returns the transaction id that it printed."""
    run = runner.run(sample, **environment)
    assert (run.returncode, run.stderr) == (0, b""), run.stdout
    found = re.search(r"TXN[0-9A-Z]+", run.stdout.decode())
    assert found, run.stdout
    if runner.language != "python-client":
        info = json.loads(run.stdout, parse_float=Decimal)["info"]
        assert info["is_sandbox"]
    return found[0]


def received_by(shop: Shop, trx_id: str) -> Received:
    def of_it() -> list[Received]:
        return [each for each in shop.received if trx_id.encode() in each.body]

    until(lambda: len(of_it()) == 1)
    return of_it()[0]


def read(received: Received, environment: dict[str, str]) -> Notification:
    return verify_ipn(received.body, received.headers, environment["MANILLA_API_SECRET"])


def test_a_payment_is_made_and_its_notification_verified(
    runner: Runner, environment: dict[str, str], shop: Shop, tmp_path: Path
) -> None:
    trx_id = made(runner, "sign_and_pay", environment)
    received = received_by(shop, trx_id)
    notification = read(received, environment)
    assert (notification.event, notification.status) == ("payment", "completed")
    assert (notification.amount, notification.trx_id) == (Decimal("1500.50"), trx_id)
    body, signature = tmp_path / "body", received.headers["x-signature"]
    for content, result in ((received.body, 0), (received.body.replace(b"1500", b"9500"), 1)):
        body.write_bytes(content)
        run = runner.run("verify_ipn", str(body), signature, **environment)
        assert run.returncode == result, run.stderr


def test_a_payment_is_verified(runner: Runner, environment: dict[str, str], shop: Shop) -> None:
    trx_id = made(runner, "sign_and_pay", environment)
    received_by(shop, trx_id)
    run = runner.run("verify_payment", trx_id, **environment)
    assert (run.returncode, run.stderr) == (0, b""), run.stdout
    assert trx_id.encode() in run.stdout


def test_a_payment_that_is_not_paid_is_not_a_success(
    runner: Runner, environment: dict[str, str]
) -> None:
    with client_of(environment) as client:
        session = client.initiate_payment(
            payment_amount=Decimal("1500.50"),
            currency_code="NGN",
            ref_trx=f"ORDER-{uuid.uuid4().hex}",
            success_redirect="https://shop.example/paid",
            cancel_redirect="https://shop.example/basket",
            ipn_url="https://shop.example/ipn",
            scenario="pending",
        )
    run = runner.run("verify_payment", session.trx_id, **environment)
    assert run.returncode == 1
    assert b"pending" in run.stdout


def test_a_payout_is_sent(runner: Runner, environment: dict[str, str], shop: Shop) -> None:
    trx_id = made(runner, "payout", environment)
    notification = read(received_by(shop, trx_id), environment)
    assert (notification.event, notification.status) == ("payout", "completed")
    assert (notification.amount, notification.trx_id) == (Decimal("5000.25"), trx_id)


def test_a_refund_is_made_once_and_verified(
    runner: Runner, environment: dict[str, str], shop: Shop
) -> None:
    payment = made(runner, "sign_and_pay", environment)
    received_by(shop, payment)
    runs = [runner.run("refund", payment, **environment) for _ in range(2)]
    assert [(run.returncode, run.stderr) for run in runs] == [(0, b"")] * 2, runs
    refunds = {re.findall(r"TXN[0-9A-Z]+", run.stdout.decode())[0] for run in runs}
    with client_of(environment) as client:
        [refund] = client.refunds(ref_trx=f"REFUND-{payment}")
        assert refunds == {refund.trx_id}
        assert client.wait_for_refund(refund.trx_id).status == "success"
    assert (refund.payment_trx_id, refund.amount) == (payment, Decimal("1500.50"))


def test_payments_are_listed_over_several_pages(
    runner: Runner, environment: dict[str, str], shop: Shop
) -> None:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    created = [made(runner, "sign_and_pay", environment) for _ in range(3)]
    for trx_id in created:
        received_by(shop, trx_id)
    run = runner.run("list_payments", f"limit=2&status=success&from={since}", **environment)
    assert (run.returncode, run.stderr) == (0, b""), run.stdout
    listed = re.findall(r"TXN[0-9A-Z]+", run.stdout.decode())
    assert [trx_id for trx_id in listed if trx_id in created] == created[::-1]


def test_a_webhook_is_received_and_verified(
    runner: Runner, environment: dict[str, str], shop: Shop, tmp_path: Path
) -> None:
    with client_of(environment) as client:
        endpoint = client.create_webhook_endpoint(url=shop.url("/webhooks"), events=["*"])
        assert client.test_webhook_endpoint(endpoint.id).http_status == 200
        client.delete_webhook_endpoint(endpoint.id)
    [received] = [each for each in shop.received if endpoint.id.encode() in each.body]
    headers = [received.headers[f"webhook-{name}"] for name in ("id", "timestamp", "signature")]
    body = tmp_path / "body"
    for content, result in ((received.body, 0), (received.body + b" ", 1)):
        body.write_bytes(content)
        run = runner.run(
            "verify_webhook", str(body), *headers, MANILLA_WEBHOOK_SECRET=endpoint.secret
        )
        assert run.returncode == result, run.stderr


@pytest.mark.parametrize(
    "sample", ["sign_and_pay", "verify_payment", "payout", "refund", "list_payments"]
)
def test_an_error_is_shown_and_is_not_a_success(
    runner: Runner, environment: dict[str, str], sample: str
) -> None:
    run = runner.run(sample, "TXN1", **{**environment, "MANILLA_API_SECRET": "test_wrong"})
    assert run.returncode != 0
    assert b"INVALID_CREDENTIALS" in run.stdout + run.stderr
