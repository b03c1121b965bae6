"""The `manilla` commands that operators and developers use for notifications, as real processes."""

import hashlib
import hmac
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from manilla.kit.embedded.postgres import find_binaries
from tests.cli.receiver import Shop, opened
from tests.command import manilla
from tests.instance import MANILLA, Instance, free_port
from tests.timeouts import TIMEOUT_SECONDS


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance with the demo, which configures the providers and so the payout methods."""
    instance = Instance(tmp_path_factory.mktemp("ipn") / "data").wait()
    yield instance
    assert instance.command("ledger", "check")["ok"]
    assert instance.stop() == 0


@pytest.fixture(scope="module")
def merchant(instance: Instance) -> Any:
    return instance.command("merchant", "create", "Ada Stores", "ada@example.com")


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with opened() as shop:
        yield shop


def trigger(instance: Instance, merchant: Any, event: str, url: str) -> Any:
    return instance.command("trigger", event, "--merchant", str(merchant["id"]), "--ipn-url", url)


def refused(instance: Instance, *words: str) -> str:
    """Runs a command that must fail. Returns its one-line error."""
    run = manilla(*words, "--data", str(instance.folder))
    assert (run.returncode, run.stdout) == (1, ""), run.stderr
    assert len(run.stderr.splitlines()) == 1
    return run.stderr


def is_signed(body: bytes, headers: dict[str, str], secret: str) -> bool:
    return headers["x-signature"] == hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def shown(instance: Instance, notification_id: str) -> Any:
    return instance.command("ipn", "show", notification_id)


def until_state(instance: Instance, notification_id: str, state: str, attempts: int) -> Any:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        row = shown(instance, notification_id)
        if (row["state"], row["attempts"]) == (state, attempts):
            return row
        assert time.monotonic() < deadline, row


EVENTS = {
    "payment.completed": ("payment", "completed", "Payment Completed"),
    "payout.completed": ("payout", "completed", "Payout Completed"),
    "payout.failed": ("payout", "failed", "Payout Failed"),
    "refund.completed": ("refund", "completed", "Payment Refunded"),
}


@pytest.mark.parametrize("event", EVENTS)
def test_a_triggered_event_happens_and_is_notified(
    instance: Instance, merchant: Any, shop: Shop, event: str
) -> None:
    made = trigger(instance, merchant, event, shop.url())
    [received] = shop.wait_for(made["notification_id"])
    body = received.json
    assert (body["event"], body["status"], body["message"]) == EVENTS[event]
    assert body["data"]["trx_id"] == made["trx_id"]
    assert body["data"].get("refund_trx_id") == made.get("refund_trx_id")
    assert is_signed(received.body, received.headers, merchant["sandbox"]["api_secret"])
    kind = "payout" if event.startswith("payout") else "payment"
    row = instance.command(kind, "show", made["trx_id"])
    wanted = {"payout.completed": "completed", "payout.failed": "failed"}.get(event, "success")
    assert (row["status"], row["environment"], row["remarks"]) == (
        *(wanted, "sandbox", "SANDBOX_TRANSACTION"),
    )
    assert len(row["timeline"]) >= 1


def test_a_refund_is_notified_after_its_payment(
    instance: Instance, merchant: Any, shop: Shop
) -> None:
    made = trigger(instance, merchant, "refund.completed", shop.url())
    shop.wait_for(made["notification_id"])
    printed = [each.json for each in shop.received]
    events = [body["event"] for body in printed if body["data"]["trx_id"] == made["trx_id"]]
    assert events == ["payment", "refund"]
    assert instance.command("payment", "show", made["trx_id"])["refunded"] == 1000


def test_a_manual_payout_is_used_when_no_rail_is_available(
    instance: Instance, merchant: Any, shop: Shop
) -> None:
    _sql(instance, "UPDATE method SET active = false WHERE provider IS NOT NULL")
    try:
        made = trigger(instance, merchant, "payout.failed", shop.url())
    finally:
        _sql(instance, "UPDATE method SET active = true WHERE provider IS NOT NULL")
    assert instance.command("payout", "show", made["trx_id"])["method"] == "platform"
    [received] = shop.wait_for(made["notification_id"])
    assert received.json["status"] == "failed"


def test_a_blocked_merchant_gets_no_events(instance: Instance) -> None:
    blocked = instance.command("merchant", "create", "Blocked", "b@example.com")["id"]
    instance.command("merchant", "set", str(blocked), "--status", "disabled")
    assert "disabled" in refused(
        instance, "trigger", "payment.completed", "--merchant", str(blocked)
    )


def test_a_notification_is_shown_with_its_body_and_attempts(
    instance: Instance, merchant: Any, shop: Shop
) -> None:
    made = trigger(instance, merchant, "payment.completed", shop.url())
    [received] = shop.wait_for(made["notification_id"])
    row = until_state(instance, made["notification_id"], "delivered", 1)
    assert row["body"].encode() == received.body
    assert (row["trx_id"], row["event"], row["url"]) == (made["trx_id"], "payment", shop.url())
    assert row["decided_at"] > row["created_at"]
    [attempt] = row["history"]
    assert (attempt["status"], attempt["answer"], attempt["error"]) == (200, "thanks", None)
    assert attempt["headers"]["X-Signature"] == received.headers["x-signature"]
    assert attempt["milliseconds"] >= 0
    words = ("ipn", "show", made["notification_id"], "--data", str(instance.folder))
    for_people = manilla(*words).stdout
    assert row["body"] in for_people
    assert all(part in for_people for part in ("HTTP 200", "X-Signature: ", "response: thanks"))
    run = subprocess.run(
        [*MANILLA, *words, "--body"], capture_output=True, check=True, timeout=TIMEOUT_SECONDS
    )
    assert run.stdout == received.body


def test_the_list_can_be_filtered(instance: Instance, merchant: Any, shop: Shop) -> None:
    other = instance.command("merchant", "create", "Other", "o@example.com")
    first = trigger(instance, other, "payment.completed", shop.url())
    second = trigger(instance, other, "payout.completed", shop.url())
    for made in (first, second):
        shop.wait_for(made["notification_id"])
        until_state(instance, made["notification_id"], "delivered", 1)

    def listed(*words: str) -> list[str]:
        return [row["id"] for row in instance.command("ipn", "list", *words)]

    mine = ("--merchant", str(other["id"]))
    assert listed(*mine) == [second["notification_id"], first["notification_id"]]
    assert listed(*mine, "--limit", "1") == [second["notification_id"]]
    assert listed(*mine, "--status", "waiting") == []
    assert len(listed(*mine, "--status", "delivered")) == 2
    assert listed("--trx", first["trx_id"]) == [first["notification_id"]]
    table = manilla("ipn", "list", *mine, "--data", str(instance.folder)).stdout
    assert first["trx_id"] in table


def test_a_delivered_notification_is_resent_unchanged(
    instance: Instance, merchant: Any, shop: Shop
) -> None:
    made = trigger(instance, merchant, "payment.completed", shop.url())
    shop.wait_for(made["notification_id"])
    until_state(instance, made["notification_id"], "delivered", 1)
    assert instance.command("ipn", "redeliver", made["notification_id"])["state"] == "waiting"
    first, second = shop.wait_for(made["notification_id"], count=2)
    assert first.body == second.body
    row = until_state(instance, made["notification_id"], "delivered", 1)
    assert [attempt["number"] for attempt in row["history"]] == [1, 2]


def test_a_failed_notification_is_resent(instance: Instance, shop: Shop) -> None:
    merchant = instance.command("merchant", "create", "Down", "d@example.com")
    shop.statuses["/down"] = 500
    made = trigger(instance, merchant, "payment.completed", shop.url("/down"))
    notification = made["notification_id"]
    for attempts in (1, 2):
        shop.wait_for(notification, "/down", attempts)
        until_state(instance, notification, "waiting", attempts)
        _let_time_pass(instance, merchant["id"])
    shop.wait_for(notification, "/down", 3)
    row = until_state(instance, notification, "failed", 3)
    assert {attempt["error"] for attempt in row["history"]} == {"HTTP 500"}
    mine = ("--merchant", str(merchant["id"]))
    [listed] = instance.command("ipn", "list", *mine, "--status", "failed")
    assert listed["id"] == notification

    del shop.statuses["/down"]
    now = datetime.now(UTC).isoformat()
    none = instance.command("ipn", "redeliver", "--failed-since", now, *mine)
    assert (none["count"], none["ids"]) == (0, [])
    sent = instance.command("ipn", "redeliver", "--failed-since", "1h", *mine)
    assert (sent["count"], sent["ids"]) == (1, [notification])
    row = until_state(instance, notification, "delivered", 1)
    assert len(row["history"]) == 4


def _let_time_pass(instance: Instance, merchant_id: int) -> None:
    """Makes the next delivery attempt due."""
    aged = "UPDATE delivery_attempt SET at = at - interval '1 hour'"
    _sql(instance, f"{aged} WHERE merchant_id = {merchant_id}")
    _sql(instance, f"UPDATE job SET due_at = now() WHERE merchant_id = {merchant_id}")


def _sql(instance: Instance, statement: str) -> None:
    url = json.loads((instance.folder / "instance.json").read_text())["migration_url"]
    subprocess.run([str(find_binaries() / "psql"), url, "-qc", statement], check=True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("ipn", "show", "msg_0"), "There is no notification msg_0."),
        (("ipn", "show", "nonsense"), "There is no notification"),
        (("ipn", "redeliver", "msg_0"), "There is no notification msg_0."),
        (("ipn", "redeliver", "--failed-since", "soon"), "is not a time"),
        (("ipn", "redeliver", "--failed-since", "2w"), "is not a time"),
        (("ipn", "redeliver", "--failed-since", "999999999d"), "is not a time"),
        (("ipn", "redeliver", "--failed-since", "2999-01-01"), "is in the future"),
        (("ipn", "list", "--trx", "TXN1"), "is not a transaction id"),
        (("trigger", "payment.completed", "--merchant", "999"), "There is no merchant 999."),
        (("trigger", "payment.completed", "--merchant", "1", "--ipn-url", "ftp://x"), "URL"),
        (("listen", "--merchant", "999"), "There is no merchant 999."),
        (
            ("listen", "--merchant", "1", "--forward", "localhost:9000"),
            "is not an http:// or https:// URL",
        ),
    ],
)
def test_an_error_is_one_line_and_exit_1(
    instance: Instance, words: tuple[str, ...], says: str
) -> None:
    assert says in refused(instance, *words)


@pytest.mark.parametrize(
    "words",
    [
        ("ipn", "list", "--status", "lost"),
        ("ipn", "list", "--limit", "0"),
        ("ipn", "redeliver"),
        ("ipn", "redeliver", "msg_0", "--failed-since", "1h"),
        ("ipn", "redeliver", "msg_0", "--merchant", "1"),
        ("trigger", "payment.completed"),
        ("trigger", "payment.lost", "--merchant", "1"),
        ("listen",),
    ],
)
def test_bad_usage_is_exit_2(words: tuple[str, ...]) -> None:
    assert manilla(*words).returncode == 2


class Listening:
    """A running `manilla listen` process."""

    def __init__(self, instance: Instance, merchant: Any, *words: str) -> None:
        options = ("--merchant", str(merchant["id"]), "--data", str(instance.folder))
        self.process = subprocess.Popen(
            [*MANILLA, "listen", *options, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        assert self.process.stderr.readline().startswith("Waiting for ")

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: int | None = None) -> tuple[int, str]:
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=TIMEOUT_SECONDS)
        assert err == ""
        return self.process.returncode, out


def test_a_listener_forwards_the_same_bytes_with_a_new_signature(
    instance: Instance, merchant: Any, shop: Shop
) -> None:
    listening = Listening(instance, merchant, "--forward", shop.url("/forward"), "--once", "--json")
    made = trigger(instance, merchant, "payment.completed", shop.url())
    code, out = listening.end()
    assert code == 0
    printed = json.loads(out)
    assert (printed["id"], printed["trx_id"]) == (made["notification_id"], made["trx_id"])
    assert (printed["forwarded"]["status"], printed["forwarded"]["answer"]) == (200, "thanks")
    [forwarded] = shop.wait_for(made["notification_id"], "/forward")
    [delivered] = shop.wait_for(made["notification_id"])
    assert forwarded.body == delivered.body == printed["body"].encode()
    assert is_signed(forwarded.body, forwarded.headers, merchant["sandbox"]["api_secret"])
    ours = ("content-type", "x-environment", "webhook-id", "x-signature")
    assert all(forwarded.headers[name] == delivered.headers[name] for name in ours)
    row = until_state(instance, made["notification_id"], "delivered", 1)
    assert len(row["history"]) == 1


def test_a_listener_survives_a_target_that_is_down(
    instance: Instance, merchant: Any, shop: Shop
) -> None:
    listening = Listening(instance, merchant, "--forward", f"http://127.0.0.1:{free_port()}/ipn")
    for _ in range(2):
        made = trigger(instance, merchant, "payout.completed", shop.url())
        assert listening.line().split()[1:] == ["payout", "completed", made["trx_id"]]
        assert f'"trx_id":"{made["trx_id"]}"' in listening.line()
        assert listening.line() == "    not forwarded: Connection refused\n"
    assert listening.end(signal.SIGINT) == (0, "")


def test_a_listener_receives_one_merchant_in_one_environment(
    instance: Instance, merchant: Any, shop: Shop
) -> None:
    other = instance.command("merchant", "create", "Quiet", "q@example.com")
    strangers = [
        Listening(instance, other),
        Listening(instance, merchant, "--environment", "production"),
    ]
    listening = Listening(instance, merchant, "--once")
    made = trigger(instance, merchant, "payment.completed", shop.url())
    code, out = listening.end()
    assert (code, len(out.splitlines())) == (0, 2)
    assert made["trx_id"] in out
    assert [each.end(signal.SIGTERM) for each in strangers] == [(0, "")] * 2


def test_every_command_has_help() -> None:
    for words in (("ipn",), ("ipn", "list"), ("listen",), ("trigger",)):
        run = subprocess.run(
            [sys.executable, "-m", "manilla", *words, "--help"],
            capture_output=True,
            text=True,
            check=True,
            timeout=TIMEOUT_SECONDS,
        )
        assert "Usage: " in run.stdout
