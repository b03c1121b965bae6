"""`manilla-client listen` with a running platform and a real receiver. No event is lost."""

import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from manilla_client import Client, Credentials, verify_ipn

from tests.client_library.shop_receiver import Proxy, Shop, opened, proxied, until
from tests.client_library.tool import TOOL, environment, process, variables
from tests.notify.receiver import Received
from tests.payments.orders import new_reference
from tests.support.instance import Instance, free_port
from tests.support.timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.long  # starts a whole installation

FORWARD = "/forward"


class Platform:
    """A running instance that can be restarted on the same port."""

    def __init__(self, folder: Path) -> None:
        self.instance = Instance(folder, "--no-demo").wait()
        self.instance.command("setting", "set", "sandbox_complete_seconds", "1")
        self.port = self.instance.port

    def restart(self) -> None:
        self.stop()
        options = ("--no-demo", "--port", str(self.port))
        self.instance = Instance(self.instance.folder, *options).wait()

    def stop(self) -> None:
        assert self.instance.stop() == 0


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    platform = Platform(tmp_path_factory.mktemp("listen") / "data")
    yield platform
    assert platform.instance.command("ledger", "check")["ok"]
    platform.stop()


@pytest.fixture
def shop() -> Iterator[Shop]:
    with opened() as shop:
        yield shop


class Seller:
    def __init__(self, platform: Platform, shop: Shop, home: Path) -> None:
        made = platform.instance.command("merchant", "create", "Ada Stores", "ada@example.com")
        self.platform, self.shop, self.home = platform, shop, home
        own = made["sandbox"]
        self.secret = own["api_secret"]
        self.keys = (own["merchant_key"], own["api_key"], own["api_secret"])
        self.variables = variables(platform.port, *self.keys)
        self.listeners: list[subprocess.Popen[str]] = []

    def pay(self) -> str:
        url = f"http://127.0.0.1:{self.platform.port}"
        with Client(url, Credentials(*self.keys)) as client:
            session = client.initiate_payment(
                payment_amount=1500,
                currency_code="NGN",
                ref_trx=new_reference(),
                success_redirect="https://shop.example/paid",
                cancel_redirect="https://shop.example/basket",
                ipn_url=self.shop.url("/ipn"),
            )
            assert client.wait_for_payment(session.trx_id).status == "success"
        return session.trx_id

    def refund(self, trx_id: str) -> None:
        self.platform.instance.command("refund", trx_id, "--reason", "returned")

    def listen(self, *words: str, **changed: str) -> "subprocess.Popen[str]":
        """Starts `listen`, and waits until it has sent its first request to the platform."""
        target = () if "--forward-to" in words else ("--forward-to", self.shop.url(FORWARD))
        listener = subprocess.Popen(
            [*TOOL, "listen", *target, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(self.home, **{**self.variables, **changed}),
        )
        self.listeners.append(listener)
        assert listener.stderr is not None
        assert "Forwarding the events of" in listener.stderr.readline()
        until(lambda: self.position() is not None or listener.poll() is not None)
        return listener

    def position(self) -> str | None:
        files = list((self.home / "state/manilla-client/listen").glob("*.json"))
        return files[0].read_text() if files else None

    def forwarded(self, count: int) -> list[str]:
        """Returns the transaction and type of each received event, in order of arrival."""
        return [named(each) for each in self.shop.wait_for(FORWARD, count)]


@pytest.fixture
def seller(platform: Platform, shop: Shop, tmp_path: Path) -> Iterator[Seller]:
    seller = Seller(platform, shop, tmp_path)
    yield seller
    for listener in seller.listeners:
        listener.kill()
        listener.communicate()


def named(received: Received) -> str:
    return f"{received.json['data']['trx_id']} {received.json['event']}"


def stop(listener: "subprocess.Popen[str]", number: int = signal.SIGINT) -> tuple[str, str]:
    """Stops `listen` with a signal, by default like Ctrl-C, and returns its output."""
    listener.send_signal(number)
    assert listener.stdout is not None
    assert listener.stderr is not None
    # Read the pipes directly, because `communicate` would miss data that is already buffered.
    out, err = listener.stdout.read(), listener.stderr.read()
    listener.wait(TIMEOUT_SECONDS)
    assert (listener.returncode, "Traceback" in err) == (0, False)
    return out, err


def test_an_event_is_forwarded_as_the_platform_delivers_it(seller: Seller) -> None:
    listener = seller.listen()
    trx_id = seller.pay()
    [forwarded] = seller.shop.wait_for(FORWARD, 1)
    [delivered] = seller.shop.wait_for("/ipn", 1)
    assert forwarded.body == delivered.body
    same = ("content-type", "x-environment", "webhook-id", "x-signature", "content-length")
    assert all(forwarded.headers[name] == delivered.headers[name] for name in same)
    assert verify_ipn(forwarded.body, forwarded.headers, seller.secret).trx_id == trx_id
    out, err = stop(listener)
    [line] = out.splitlines()
    assert line.split()[1:3] == ["payment.success", trx_id]
    assert "HTTP 200 in " in line
    assert seller.secret not in out + err


def test_it_starts_now_and_later_continues_where_it_ended(seller: Seller) -> None:
    seller.pay()
    seller.platform.instance.sql(
        "UPDATE notification SET created_at = created_at - interval '1 hour'"
    )
    first = seller.listen()
    second_event = seller.pay()
    assert seller.forwarded(1) == [f"{second_event} payment"]
    stop(first, signal.SIGTERM)
    third_event = seller.pay()
    stop_after = seller.listen()
    assert seller.forwarded(2) == [f"{second_event} payment", f"{third_event} payment"]
    stop(stop_after)


def test_since_a_time_or_an_event_overrides_the_position(seller: Seller) -> None:
    began = datetime.now(UTC).isoformat()
    first, second = seller.pay(), seller.pay()
    expected = [f"{first} payment", f"{second} payment"]
    stop_when(seller, seller.listen("--since", began), 2)
    assert seller.forwarded(2) == expected
    after_first = seller.shop.at(FORWARD)[0].headers["webhook-id"]
    stop_when(seller, seller.listen("--since", after_first), 3)
    assert seller.forwarded(3) == [*expected, expected[1]]


def stop_when(seller: Seller, listener: "subprocess.Popen[str]", count: int) -> None:
    seller.forwarded(count)
    stop(listener)


def test_a_wrong_since_is_explained_and_keeps_the_position(seller: Seller) -> None:
    stop(seller.listen())
    before = seller.position()
    words = ("listen", "--forward-to", seller.shop.url(FORWARD), "--since", "yesterday")
    run = process(seller.home, *words, **seller.variables)
    assert (run.returncode, run.stdout) == (1, "")
    assert "since" in run.stderr
    assert seller.position() == before


def test_an_event_is_sent_again_if_listen_is_killed_before_it_remembers(seller: Seller) -> None:
    listener = seller.listen()

    def freeze(_: Received) -> int:
        os.kill(listener.pid, signal.SIGSTOP)
        return 200

    # Suspend `listen` when the response arrives, and kill it before it can store the position.
    seller.shop.answering[FORWARD] = freeze
    seller.shop.after_answer = lambda received: (
        listener.kill() if received.path == FORWARD else None
    )
    first = seller.pay()
    assert seller.forwarded(1) == [f"{first} payment"]
    assert listener.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
    seller.shop.answering.clear()
    seller.shop.after_answer = lambda _: None
    second = seller.pay()
    seller.listen()
    assert seller.forwarded(3) == [f"{first} payment", f"{first} payment", f"{second} payment"]
    once, again, _ = seller.shop.at(FORWARD)
    assert (once.body, once.headers["webhook-id"]) == (again.body, again.headers["webhook-id"])


def test_a_rejected_event_holds_back_its_transaction_and_no_other(seller: Seller) -> None:
    rejected: list[str] = []

    def reject_first(received: Received) -> int:
        trx_id = received.json["data"]["trx_id"]
        if not rejected:
            rejected.append(trx_id)
        return 500 if trx_id in rejected else 200

    seller.shop.answering[FORWARD] = reject_first
    listener = seller.listen()
    trx_id = seller.pay()
    seller.shop.wait_for(FORWARD, 1)
    seller.refund(trx_id)
    other = seller.pay()
    until(lambda: f"{other} payment" in map(named, seller.shop.at(FORWARD)))
    out, err = stop(listener)
    assert [line.split()[2] for line in out.splitlines()] == [other]
    assert "HTTP 500; trying again in 1 s" in err
    assert f"{trx_id} refund" not in map(named, seller.shop.at(FORWARD))

    seller.shop.received.clear()
    seller.shop.answering.clear()
    seller.listen()
    assert seller.forwarded(2) == [f"{trx_id} payment", f"{trx_id} refund"]
    until(lambda: '"delivered": []' in str(seller.position()))
    assert len(seller.shop.at(FORWARD)) == 2


def test_a_receiver_that_is_down_gets_everything_later(seller: Seller) -> None:
    port = free_port()
    listener = seller.listen("--forward-to", f"http://127.0.0.1:{port}{FORWARD}")
    events = [f"{seller.pay()} payment" for _ in range(2)]
    assert listener.stderr is not None
    assert "Connection refused" in listener.stderr.readline()
    with opened(port) as late:
        assert sorted(map(named, late.wait_for(FORWARD, 2))) == sorted(events)
    stop(listener)


def test_it_survives_a_restart_of_the_platform(seller: Seller) -> None:
    listener = seller.listen()
    before = seller.pay()
    seller.forwarded(1)
    seller.platform.restart()
    after = seller.pay()
    assert seller.forwarded(2) == [f"{before} payment", f"{after} payment"]
    _, err = stop(listener)
    assert "Events cannot be read: " in err


@pytest.fixture
def proxy(platform: Platform) -> Iterator[Proxy]:
    with proxied(platform.port) as proxy:
        yield proxy


def test_it_waits_when_the_platform_says_so(seller: Seller, proxy: Proxy) -> None:
    url = f"http://127.0.0.1:{proxy.port}"
    proxy.refusals = [(429, {"Retry-After": "3"}), (502, {}), (200, {})]
    listener = seller.listen("--since", "2026-01-01T00:00:00Z", MANILLA_URL=url)
    trx_id = seller.pay()
    assert seller.forwarded(1) == [f"{trx_id} payment"]
    _, err = stop(listener)
    statuses = [line for line in err.splitlines() if "cannot be read" in line]
    assert [line.rpartition(" in ")[2] for line in statuses] == ["3 s.", "2 s.", "4 s."]
    assert ["429" in statuses[0], "502" in statuses[1], "not JSON" in statuses[2]] == [True] * 3


def test_only_the_wanted_types_are_forwarded(seller: Seller) -> None:
    listener = seller.listen("--type", "refund.*", "--type", "payout.*")
    trx_id = seller.pay()
    seller.refund(trx_id)
    assert seller.forwarded(1) == [f"{trx_id} refund"]
    stop(listener)


def test_two_listeners_with_the_same_keys_are_refused(seller: Seller) -> None:
    seller.listen()
    words = ("listen", "--forward-to", seller.shop.url(FORWARD))
    run = process(seller.home, *words, **seller.variables)
    assert (run.returncode, run.stderr) == (1, "Another `listen` with these keys is running.\n")


@pytest.mark.parametrize(
    ("url", "changed", "says"),
    [
        ("localhost:9000", {}, "localhost:9000"),
        ("http://127.0.0.1:9/a b", {}, "no spaces"),
        ("http://127.0.0.1:9/", {"MANILLA_API_SECRET": "test_wrong"}, "INVALID_CREDENTIALS"),
    ],
)
def test_what_cannot_work_ends_with_an_explanation(
    seller: Seller, url: str, changed: dict[str, Any], says: str
) -> None:
    run = process(seller.home, "listen", "--forward-to", url, **{**seller.variables, **changed})
    assert (run.returncode, run.stdout) == (1, "")
    assert says in run.stderr.splitlines()[-1]
    assert seller.position() is None
