"""`manilla audit` and `manilla approval`, against an instance in production mode."""

import asyncio
import base64
import json
import os
import pwd
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from manilla.approvals import approvals
from manilla.approvals.approvals import Approvals
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.merchants import merchants
from manilla.platform import settings as platform
from manilla.providers import credentials
from manilla.settings import Settings
from tests.audit.tampering import tampered
from tests.support.command import manilla

BOLA = Actor(ActorKind.PERSON, 2, "Bola", "console")
USER = pwd.getpwuid(os.getuid()).pw_name

Command = Callable[..., Awaitable[Any]]


@pytest.fixture
def command(settings: Settings) -> Command:
    """Runs a command. Returns its output, parsed if it is JSON, or its error if it exits with 1."""

    async def run(*words: str, mode: str = "production", code: int = 0) -> Any:
        environment = {
            "MANILLA_MODE": mode,
            "MANILLA_DATABASE_URL": settings.database_url,
            "MANILLA_MASTER_KEY": base64.b64encode(settings.master_keys[0]).decode(),
        }
        done = await asyncio.to_thread(lambda: manilla(*words, **environment))
        assert done.returncode == code, done.stderr
        out = done.stdout or done.stderr
        return json.loads(out) if "--json" in words and done.stdout else out

    return run


async def test_a_change_that_weakens_security_waits_for_another_administrator(
    command: Command, db: Database, keyring: Keyring
) -> None:
    new = await merchants.create(db, keyring, name="Ada", email="a@example.com")
    office = Approvals(db, keyring, is_production_mode=True)
    adjust = (
        *("wallet", "adjust", "--merchant", str(new.id), "--environment", "production"),
        *("--currency", "NGN", "--reason", "A gift", "--json"),
    )
    asked = await command(*adjust, "--amount", "10000000.01")
    assert list(asked) == ["approval"]
    number = asked["approval"]

    said = await command("approval", "approve", str(number), code=1)
    assert said == ("manilla: You requested this change, so another person must approve it.\n")
    [listed] = [
        each for each in await command("approval", "list", "--json") if each["id"] == number
    ]
    assert (listed["asked_by"], listed["status"]) == (f"command {USER}", "waiting")
    assert listed["wanted"]["amount"] == "10000000.01 NGN"
    with acting(BOLA):
        await approvals.approve(office, number)

    done = await command(*adjust, "--amount", "-0.01")
    shown = ["environment", "currency", "balance", "withheld", "short", "status", "trx_id"]
    assert list(done) == shown
    assert done["balance"] == 10_000_000
    fund = ("wallet", "fund", str(new.id), "NGN", "10000000.01", "--environment", "production")
    funded = await command(*fund, "--json", mode="development")
    assert (list(funded), funded["balance"]) == (list(done), 20_000_000.01)
    assert list(await command(*fund, "--json")) == ["approval"]

    lines = await command("audit", "list", "--merchant", str(new.id), "--limit", "3", "--json")
    assert [(line["action"], line["actor_kind"], line["actor"]) for line in lines] == [
        ("approval.ask", "command", USER),
        ("wallet.fund", "command", USER),
        ("wallet.adjust", "command", USER),
    ]


async def test_settings_and_credentials_wait_and_can_be_rejected(
    command: Command, db: Database, keyring: Keyring
) -> None:
    said = await command("setting", "set", "signature_required", "false")
    assert said.startswith("waiting for a second administrator: approval ")
    number = said.split()[-1]
    refused = await command("approval", "refuse", number, "--reason", "not now", "--json")
    assert (refused["status"], refused["decision"]) == ("refused", "not now")
    assert (await platform.load(db)).signature_required

    await credentials.clear(db, "providerc")
    given = ("provider", "set", "providerc", "secret_key=one", "webhook_secret=two", "--json")
    assert (await command(*given))["valid"]
    assert list(await command("provider", "set", "providerc", "secret_key=x", "--json")) == [
        "approval"
    ]
    await credentials.clear(db, "providerc")


async def test_a_rewritten_log_exits_with_1(command: Command, owner: Database) -> None:
    whole = await command("audit", "verify", "--json")
    assert (whole["whole"], whole["lines"], whole["broken_id"]) == (True, whole["last_id"], None)
    async with tampered(owner, "UPDATE audit SET actor_name = 'Eve' WHERE id = 1"):
        broken = await command("audit", "verify", "--json", code=1)
    assert (broken["whole"], broken["broken_id"], broken["reason"]) == (
        False,
        1,
        "The entry was changed.",
    )


async def test_commands_that_direct_money_to_another_provider_wait(
    command: Command, db: Database, keyring: Keyring
) -> None:
    first = {"secret_key": "one", "webhook_secret": "two"}
    await credentials.change(db, keyring, "providerc", first)
    try:
        for words in (
            ("provider", "set", "kora", "secret_key=sk_1"),
            ("withdraw-method", "set", "kora_ngn_transfer", "--active", "on"),
            ("deposit-method", "set", "kora-ngn", "--active", "on"),
            ("withdraw-method", "set", "providerb_ngn_transfer", "--position", "0"),
            ("withdraw-method", "add", "kora-more", "--name", "N", "--currency", "NGN"),
        ):
            assert list(await command(*words, "--json")) == ["approval"], words
        insecure = ("provider", "set", "kora", "base_url=http://127.0.0.1:9")
        assert "https://" in await command(*insecure, code=1)
        await command("rail", "drain", "providerc")  # Stopping a rail's payouts needs no approval.
        await command("rail", "undrain", "providerc")
        assert (await credentials.load(db, keyring))["kora"].given == {}
        old = {"base_url": "http://10.0.0.1"}
        await credentials.change(db, keyring, "providerc", old)
        [row] = [row for row in await command("check", "--json") if row["check"] == "providers"]
        assert row["result"] == "warning"
        assert "providerc (http://10.0.0.1)" in row["detail"]
    finally:
        await credentials.clear(db, "providerc")


async def test_targets_of_the_audit_stream_are_added_listed_and_removed(command: Command) -> None:
    await command("audit", "target-add", "siem", "https://siem.example/events")
    refused = await command("audit", "target-add", "siem", "ftp://siem.example", code=1)
    assert "syslog+tls://host:port" in refused
    [target] = await command("audit", "target-list", "--json")
    assert (target["name"], target["url"]) == ("siem", "https://siem.example/events")
    assert target["waiting"] == 1  # the entry about the target
    await command("audit", "target-remove", "siem")
    assert await command("audit", "target-list", "--json") == []
    assert "no such target" in await command("audit", "target-remove", "siem", code=1)
