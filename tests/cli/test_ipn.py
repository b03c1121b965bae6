"""The `manilla` commands for notifications, each run as a separate process."""

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.receiver import Shop, opened
from tests.cli.triggering import trigger
from tests.support.command import manilla
from tests.support.instance import MANILLA, Instance
from tests.support.timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance with the demo merchant, so that providers and payout methods are configured."""
    instance = Instance(tmp_path_factory.mktemp("ipn") / "data").wait()
    instance.command("setting", "set", "sandbox_complete_seconds", "1")
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


def refused(instance: Instance, *words: str) -> str:
    """Runs a command that must fail, and returns the command's one-line error."""
    run = manilla(*words, "--data", str(instance.folder))
    assert (run.returncode, run.stdout) == (1, ""), run.stderr
    assert len(run.stderr.splitlines()) == 1
    return run.stderr


def shown(instance: Instance, notification_id: str) -> Any:
    return instance.command("ipn", "show", notification_id)


def until_state(instance: Instance, notification_id: str, state: str, attempts: int) -> Any:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        row = shown(instance, notification_id)
        if (row["state"], row["attempts"]) == (state, attempts):
            return row
        assert time.monotonic() < deadline, row


def test_a_notification_is_shown_with_its_body_and_attempts(
    instance: Instance, merchant: Any, shop: Shop
) -> None:
    made = trigger(instance, merchant, "payment.success", shop.url())
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
    first = trigger(instance, other, "payment.success", shop.url())
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
    made = trigger(instance, merchant, "payment.success", shop.url())
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
    made = trigger(instance, merchant, "payment.success", shop.url("/down"))
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
    """Makes the notification's next delivery attempt due."""
    aged = "UPDATE delivery_attempt SET at = at - interval '1 hour'"
    instance.sql(f"{aged} WHERE merchant_id = {merchant_id}")
    instance.sql(f"UPDATE job SET due_at = now() WHERE merchant_id = {merchant_id}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("ipn", "show", "msg_0"), "There is no notification msg_0."),
        (("ipn", "show", "nonsense"), "There is no notification"),
        (("ipn", "redeliver", "msg_0"), "There is no notification msg_0."),
        (("ipn", "list", "--trx", "TXN1"), "is not a transaction id"),
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
        ("ipn", "redeliver", "--failed-since", "2w"),
        ("ipn", "redeliver", "--failed-since", "999999999d"),
        ("ipn", "redeliver", "--failed-since", "2999-01-01"),
    ],
)
def test_bad_usage_is_exit_2(words: tuple[str, ...]) -> None:
    assert manilla(*words).returncode == 2


def test_every_command_has_help() -> None:
    for words in (("ipn",), ("ipn", "list")):
        run = subprocess.run(
            [sys.executable, "-m", "manilla", *words, "--help"],
            capture_output=True,
            text=True,
            check=True,
            timeout=TIMEOUT_SECONDS,
        )
        assert "Usage: " in run.stdout
