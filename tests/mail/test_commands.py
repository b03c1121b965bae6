"""`manilla mail` and `manilla check` with the test database and an SMTP server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from manilla.cli import mail as command
from manilla.mail import listing
from manilla.mail.listing import MailFilter, MailState
from manilla.services import Services
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.mail.mail_server import MailServer, plain_transport
from tests.mail.post_office import put_failed_payout, until_states, worker
from tests.people.accounts import Owner, new_email
from tests.support.command import manilla


@pytest.fixture
def environment(settings: Settings, server: MailServer) -> dict[str, str]:
    """The environment of an installation in production mode that uses the test's mail server."""
    return environment_of(settings) | {"MANILLA_SMTP_URL": f"smtp://127.0.0.1:{server.port}"}


@pytest.fixture
def mail(environment: dict[str, str]) -> InProcessCommand:
    return InProcessCommand(command.app, environment)


async def _fail_one(services: Services, server: MailServer, owner: Owner) -> int:
    """Makes an email to the owner fail, and returns the email's id."""
    await put_failed_payout(services, owner.merchant_id)
    server.recipient_answers = ["550 5.1.1 No such mailbox"]
    async with worker(services, plain_transport(server.port)):
        await until_states(services, owner.merchant_id, ("failed", 1))
    [failed] = (await listing.mails(services.db, MailFilter(search=owner.email))).rows
    return failed.id


async def test_a_test_email_is_sent_at_once(mail: InProcessCommand, server: MailServer) -> None:
    email = new_email()
    printed = await mail.printed("test", email)
    assert printed == {"recipient": email, "sent_by": f"smtp://127.0.0.1:{server.port}"}
    assert len(server.to(email)) == 1


async def test_a_test_email_that_the_server_rejects_prints_its_answer(
    mail: InProcessCommand, server: MailServer
) -> None:
    server.recipient_answers = ["550 5.7.1 Relaying denied"]
    refusal = await mail.refused("test", new_email())
    assert "550 5.7.1 Relaying denied" in refusal
    assert server.messages == []


async def test_a_test_email_needs_a_mail_server_and_an_address(
    settings: Settings, mail: InProcessCommand
) -> None:
    without = InProcessCommand(command.app, environment_of(settings))
    assert "MANILLA_SMTP_URL" in await without.refused("test", new_email())
    assert (await mail.run("test", "nobody")).exit_code == 2


async def test_a_failed_email_is_listed_and_sent_again(
    services: Services, mail: InProcessCommand, server: MailServer, owner: Owner
) -> None:
    mail_id = await _fail_one(services, server, owner)
    [listed] = [row for row in await mail.printed("list") if row["id"] == mail_id]
    assert (listed["recipient"], listed["state"]) == (owner.email, MailState.FAILED)
    assert "No such mailbox" in listed["last_error"]
    assert (await mail.printed("retry", str(mail_id)))["state"] == MailState.WAITING
    waiting = await mail.printed("list", "--state", "waiting")
    assert mail_id in [row["id"] for row in waiting]
    assert mail_id not in [row["id"] for row in await mail.printed("list")]
    async with worker(services, plain_transport(server.port)):
        await until_states(services, owner.merchant_id, ("sent", 1))
    assert len(server.to(owner.email)) == 1


async def test_only_a_failed_email_can_be_sent_again(
    services: Services, mail: InProcessCommand, server: MailServer, owner: Owner
) -> None:
    mail_id = await _fail_one(services, server, owner)
    await mail.printed("retry", str(mail_id))
    assert await mail.refused("retry", str(mail_id)) == listing.MailNotFailed.message
    assert await mail.refused("retry", str(2**61)) == listing.MailNotFound.message


async def _checked(environment: dict[str, str], **changed: str) -> dict[str, Any]:
    done = await asyncio.to_thread(manilla, "check", "--json", **environment | changed)
    assert done.returncode == 0, done.stderr
    return {row["check"]: row for row in json.loads(done.stdout)}


async def test_the_check_warns_about_production_mode_without_email(
    environment: dict[str, str], server: MailServer
) -> None:
    with_mail = await _checked(environment)
    assert {row["result"] for row in with_mail.values()} == {"ok"}
    assert with_mail["mail"]["detail"] == f"smtp://127.0.0.1:{server.port}"
    without = await _checked(environment, MANILLA_SMTP_URL="")
    assert without["mail"]["result"] == "warning"
    assert "MANILLA_SMTP_URL" in without["mail"]["detail"]
    in_development = await _checked(environment, MANILLA_SMTP_URL="", MANILLA_MODE="development")
    assert in_development["mail"]["result"] == "ok"


async def test_the_check_shows_where_secrets_come_from_and_not_the_secrets(
    environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text(environment["MANILLA_MASTER_KEY"])
    checked = await _checked(environment, MANILLA_MASTER_KEY="", MANILLA_MASTER_KEY_FILE=str(file))
    assert f"MANILLA_MASTER_KEY: file {file}" in checked["secrets"]["detail"]
    assert "MANILLA_DATABASE_URL: set directly" in checked["secrets"]["detail"]
    assert environment["MANILLA_MASTER_KEY"] not in str(checked)


async def test_the_check_fails_where_manilla_cannot_start(environment: dict[str, str]) -> None:
    bad = {"MANILLA_SMTP_URL": "smtp://relay:secret@smtp.example.com"}
    done = await asyncio.to_thread(manilla, "check", "--json", **environment | bad)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not encrypted" in done.stderr
