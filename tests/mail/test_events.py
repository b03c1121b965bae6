"""Users' and administrators' actions cause emails, which reveal nothing to other people."""

import base64
import json
from pathlib import Path

import msgspec
import pytest

from manilla.approvals import approvals
from manilla.approvals.kinds import WalletAdjustment
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.mail.hook import HookTransport
from manilla.mail.transport import MailAttachment, NotSent
from manilla.people import devices, sign_in, tasks
from manilla.people.roles import Realm
from manilla.people.tasks import ResetTasks
from manilla.services import Services
from tests.mail.outbox_reader import letters_to, mails_to
from tests.mail.post_office import put_failed_payout
from tests.people.accounts import BROWSER, PASSWORD, Accounts, Owner, new_address, new_email
from tests.support.approving import approvals_of
from tests.support.limits import limited


async def test_a_reset_is_requested_alike_for_known_and_unknown_addresses(
    services: Services, accounts: Accounts, owner: Owner
) -> None:
    unknown = new_email()
    handling = ResetTasks(services.db, accounts.keyring)
    for email in (owner.email, unknown):
        await tasks.request_reset(services.db, Realm.DASHBOARD, email)
        subject = f"dashboard:{email}"
        found = "SELECT count(*) FROM job WHERE kind = 'person.reset' AND subject = $1"
        assert await services.db.number(found, subject) == 1
        assert await mails_to(services.db, email) == []
        await handling.write(Job(0, "person.reset", subject, 1, 0, 1))
    [letter] = await letters_to(services.db, services.letters, owner.email)
    assert "/dashboard/reset/" in letter.link
    assert await mails_to(services.db, unknown) == []
    stored = await services.db.value(
        "SELECT mail::text FROM mail WHERE recipient = $1", owner.email
    )
    assert letter.link.rpartition("/")[2] not in stored


async def test_only_a_sign_in_from_a_new_device_causes_an_email(
    services: Services, accounts: Accounts, owner: Owner
) -> None:
    cookie = devices.issue(accounts.keyring, Realm.DASHBOARD, owner.visitor.person_id)
    for device_cookie in (cookie, ""):
        await sign_in.sign_in(
            *(services.db, accounts.keyring, Realm.DASHBOARD, owner.email, PASSWORD, None),
            *(new_address(), BROWSER),
            device_cookie=device_cookie,
        )
    [letter] = await letters_to(services.db, services.letters, owner.email)
    assert letter.subject == "Sign-in from a new device"


async def test_the_other_administrators_are_asked_to_approve_a_change(
    services: Services, accounts: Accounts, owner: Owner
) -> None:
    (asking, asker), (_, other) = await accounts.administrator(), await accounts.administrator()
    amount = Money.of("25", "NGN")
    change = WalletAdjustment(owner.merchant_id, Environment.SANDBOX, amount, "A correction")
    with acting(Actor(ActorKind.PERSON, asking, asker, "console")):
        await approvals.request(approvals_of(services), change, "A correction")
    [letter] = await letters_to(services.db, services.letters, other)
    assert (asker in letter.text, "A correction" in letter.text) == (True, True)
    assert await mails_to(services.db, asker) == []


async def test_the_mail_hook_gets_the_email_and_none_of_our_settings(
    services: Services, owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANILLA_MASTER_KEY", "secret")
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat > {tmp_path}/got; env > {tmp_path}/env\n")
    hook.chmod(0o700)
    await put_failed_payout(services, owner.merchant_id)
    [letter] = await letters_to(services.db, services.letters, owner.email)
    await HookTransport(str(hook)).send(letter)
    got = json.loads((tmp_path / "got").read_text())
    assert (got["kind"], got["email"]) == ("payout_failed", owner.email)
    assert (got["link"], got["subject"]) == (letter.link, letter.subject)
    assert "MANILLA_" not in (tmp_path / "env").read_text()
    attached = MailAttachment("statement.csv", "text/csv", b"Time\r\n")
    await HookTransport(str(hook)).send(msgspec.structs.replace(letter, attachments=[attached]))
    [document] = json.loads((tmp_path / "got").read_text())["attachments"]
    assert (document["name"], document["media_type"]) == ("statement.csv", "text/csv")
    assert base64.b64decode(document["content"]) == b"Time\r\n"
    hook.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(NotSent, match="status 3"):
        await HookTransport(str(hook)).send(letter)
    hook.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(NotSent, match="in time"), limited(mail_hook_seconds=0.1):
        await HookTransport(str(hook)).send(letter)
    with pytest.raises(NotSent, match="cannot be run"):
        await HookTransport(str(tmp_path / "missing")).send(letter)
