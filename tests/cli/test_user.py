"""`manilla user`, run against the test database."""

import asyncio
import json
from pathlib import Path

import pytest

from manilla.cli import user
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.people import invitations, resets
from manilla.people.roles import Realm
from manilla.people.sign_in import NeedsCode
from manilla.settings import BadConfiguration, Mode, Settings
from tests.cli.in_process import BASE_URL, InProcessCommand, environment_of
from tests.mail.outbox_reader import mails_to
from tests.people.accounts import BROWSER, PASSWORD, Accounts, new_address, new_email
from tests.support.command import manilla


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    return environment_of(settings)


@pytest.fixture
def command(environment: dict[str, str]) -> InProcessCommand:
    return InProcessCommand(user.app, environment)


@pytest.fixture
def accounts(db: Database, keyring: Keyring) -> Accounts:
    return Accounts(db, keyring)


async def test_console_users_are_added_by_link_or_with_a_password(
    db: Database, accounts: Accounts, command: InProcessCommand
) -> None:
    invited, ready = new_email(), new_email()
    console = ("add", "--realm", "console", "--name", "Tolu", "--role", "administrator", "--email")
    added = await command.printed(*console, invited)
    with_password = await command.printed(
        *console, ready, "--password-stdin", given=PASSWORD + "\n"
    )
    assert (added["has_password"], with_password["has_password"]) == (False, True)
    assert "link" not in with_password
    await accounts.sign_in(ready, realm=Realm.CONSOLE)
    token = added["link"].removeprefix(f"{BASE_URL}/console/invitation/")
    await invitations.accept(
        db,
        Realm.CONSOLE,
        token,
        name="Tolu",
        password=PASSWORD,
        address=new_address(),
        user_agent=BROWSER,
    )
    listed = await command.printed("list", "--realm", "console")
    assert {invited, ready} <= {row["email"] for row in listed}
    assert {row["realm"] for row in listed} == {"console"}
    assert (await command.printed("role", ready, "operations"))["role"] == "operations"
    assert "administrator, operations, support" in await command.refused("role", ready, "owner")


async def test_invalid_users_are_rejected(accounts: Accounts, command: InProcessCommand) -> None:
    owner, _, known = await accounts.owner(), *await accounts.administrator()
    console = ("add", "--realm", "console", "--name", "Tolu", "--email")
    merchant = ("add", "--merchant", str(owner.merchant_id), "--email", new_email())
    for said, *words in [
        ("administrator, operations, support", *console, new_email(), "--role", "owner"),
        ("owner, developer, finance, viewer", *merchant, "--role", "administrator"),
        ("12 to 256", *console, new_email(), "--role", "support", "--password-stdin"),
        ("already", *console, known, "--role", "support"),
        ("no merchant", *merchant, "--merchant", "999999999", "--role", "owner"),
    ]:
        assert said in await command.refused(*words, given="short\n")
    for bad_usage in (
        ("add", "--email", new_email(), "--role", "owner"),
        ("add", "--email", new_email(), "--role", "owner", "--merchant", "1", "--realm", "console"),
        ("add", "--email", new_email(), "--role", "support", "--realm", "console"),
    ):
        assert (await command.run(*bad_usage)).exit_code == 2


async def test_members_are_added_and_listed(
    db: Database, accounts: Accounts, command: InProcessCommand
) -> None:
    owner, new, invited = await accounts.owner(), new_email(), new_email()
    merchant = str(owner.merchant_id)
    member = ("add", "--merchant", merchant, "--role", "finance", "--email")
    chosen = ("--name", "Ife", "--password-stdin")
    with_password = await command.printed(*member, new, *chosen, given=PASSWORD)
    by_link = await command.printed(*member, invited)
    assert (with_password["role"], with_password["email"]) == ("finance", new)
    visitor = await accounts.visitor(await accounts.sign_in(new))
    assert (visitor.merchant_id, visitor.role) == (owner.merchant_id, "finance")
    token = by_link["link"].removeprefix(f"{BASE_URL}/dashboard/invitation/")
    assert (await invitations.look_at(db, Realm.DASHBOARD, token)).email == invited
    assert by_link["is_emailed"] is False
    listed = await command.printed("list", "--merchant", merchant)
    assert [(row["email"], row["role"]) for row in listed] == [
        (owner.email, "owner"),
        (new, "finance"),
    ]


async def test_a_reset_link_is_printed_and_sent_and_works_once(
    db: Database, accounts: Accounts, environment: dict[str, str], tmp_path: Path
) -> None:
    owner = await accounts.owner()
    hook = tmp_path / "hook"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o700)
    words = ("user", "reset", owner.email.upper(), "--json")
    done = await asyncio.to_thread(manilla, *words, **environment, MANILLA_MAIL_HOOK=str(hook))
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["is_emailed"] is True
    [mail] = await mails_to(db, owner.email)
    # The stored path is empty, because the whole link is stored encrypted.
    assert (mail.kind, mail.path) == ("reset", "")
    token = made["link"].removeprefix(f"{BASE_URL}/dashboard/reset/")
    assert token not in done.stderr
    await resets.use(db, Realm.DASHBOARD, token, "another long phrase")
    assert not await accounts.is_signed_in(owner.token)
    with pytest.raises(resets.BadReset):
        await resets.use(db, Realm.DASHBOARD, token, "another long phrase")
    await accounts.sign_in(owner.email, "another long phrase")


async def test_a_reset_for_an_unknown_user_exits_1_with_one_line(
    environment: dict[str, str],
) -> None:
    done = await asyncio.to_thread(manilla, "user", "reset", new_email(), **environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "manilla: The dashboard has no user with this email address.\n"


async def test_users_are_signed_out_disabled_and_reset(
    accounts: Accounts, command: InProcessCommand
) -> None:
    owner, shut, lost = [await accounts.owner() for _ in range(3)]
    await accounts.turn_on_totp(lost.visitor)
    dashboard = ("--realm", "dashboard")
    listed = await command.printed("sessions", owner.email)
    assert [row["user_agent"] for row in listed] == [BROWSER]
    assert (await command.printed("disable", shut.email, *dashboard))["status"] == "disabled"
    assert not await accounts.is_signed_in(shut.token)
    assert not (await command.printed("totp-off", lost.email, *dashboard))["second_factor"]
    assert not isinstance(await accounts.try_sign_in(lost.email), NeedsCode)
    assert (await command.printed("sign-out", owner.email))["sessions_ended"] == 1
    assert not await accounts.is_signed_in(owner.token)
    assert (await command.printed("enable", shut.email, *dashboard))["status"] == "active"
    await accounts.sign_in(shut.email)
    for name in ("disable", "enable", "totp-off", "sessions", "sign-out"):
        said = await command.refused(name, owner.email, "--realm", "console")
        assert "has no user with this email address" in said


def test_a_mail_hook_that_is_not_executable_is_reported_at_start(tmp_path: Path) -> None:
    not_a_program = tmp_path / "hook"
    not_a_program.write_text("#!/bin/sh\n")
    for path in (not_a_program, tmp_path, tmp_path / "missing"):
        with pytest.raises(BadConfiguration, match="MANILLA_MAIL_HOOK"):
            Settings.read({"MANILLA_MAIL_HOOK": str(path)}, assumed_mode=Mode.PRODUCTION)


async def test_company_sign_in_is_made_optional(db: Database, command: InProcessCommand) -> None:
    await db.execute(
        """
        INSERT INTO sign_in_provider (merchant_id, key, issuer, client_id, secret_sealed,
                                      groups_claim, roles, is_required, break_glass)
        VALUES (0, 'a-key', 'https://login.example', 'manilla', '', 'groups', '{}', true, '')"""
    )
    assert await command.printed("company-optional") == {"merchant_id": None, "is_required": False}
    assert not await db.value("SELECT is_required FROM sign_in_provider WHERE merchant_id = 0")
    await command.refused("company-optional")
